package ccl

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// random returns n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func all(int) bool { return true }

// HcclCommInitAll makes one communicator per device of this process.
func (l *Library) HcclCommInitAll(ndev uint32, devices *int32, comms *rt.Handle) error {
	const call = "HcclCommInitAll"
	n := int(ndev)
	switch {
	case l.invalid != nil:
		return l.invalid
	case n == 0:
		return refuse(badParameter, "EI0003: %s: ndev is 0", call)
	case devices == nil:
		return null(call, "devices")
	case comms == nil:
		return null(call, "comms")
	}
	if n > l.rt.DeviceCount() {
		return refuse(badParameter, "EI0003: %s: ndev is %d, there are %d devices", call, n, l.rt.DeviceCount())
	}
	ids := unsafe.Slice(devices, n)
	if twice(ids) {
		return refuse(badParameter, "EI0003: %s: devices %v are not distinct", call, ids)
	}
	for _, d := range ids {
		if d < 0 || int(d) >= l.rt.DeviceCount() {
			return refuse(badParameter, "EI0003: %s: device %d does not exist, there are %d", call, d, l.rt.DeviceCount())
		}
	}
	id := random(16)
	made, err := l.createAll(id, ids)
	if err != nil {
		for _, c := range made {
			c.close()
		}
		return refuse(internal, "%s: %v", call, err)
	}
	for i, c := range made {
		unsafe.Slice(comms, n)[i] = c.publish()
	}
	return nil
}

// createAll makes one communicator per device. On an error it also returns the communicators
// made so far, which the caller must close.
func (l *Library) createAll(id string, devices []int32) (made []*comm, err error) {
	var positions []position
	for _, d := range devices {
		positions = append(positions, position{device: l.rt.PhysicalDevice(int(d)), pod: unknownPod, superID: unknownSuperID})
	}
	for i, d := range devices {
		c, err := l.newComm(defaults(id), int(d), int(d), i, len(devices))
		if err == nil {
			c.alone, c.positions = true, positions
			made = append(made, c)
			err = c.enter(id, all)
		}
		if err != nil {
			return made, fmt.Errorf("device %d: %v", d, err)
		}
	}
	return made, nil
}

const noSubComm = 0xFFFFFFFF

// HcclCreateSubCommConfig makes a communicator of some ranks of another one. Ranks that are
// not members pass null rankIDs and subCommID 0xFFFFFFFF.
func (l *Library) HcclCreateSubCommConfig(t *rt.Thread, comm rt.In[rt.Handle], rankNum uint32, rankIDs *uint32, subCommID uint64, subCommRankID uint32, config rt.Address, subComm rt.Out[rt.Handle]) error {
	const call = "HcclCreateSubCommConfig"
	c, err := l.usable(call, comm.Get())
	switch {
	case err != nil:
		return err
	case rankIDs == nil && uint32(subCommID) == noSubComm:
		return nil // this rank is no member
	case rankIDs == nil || uint32(subCommID) == noSubComm:
		return refuse(badParameter, "EI0003: %s: a rank that is no member passes null rankIds and subCommId 0xFFFFFFFF, a member neither", call)
	case c.sub:
		return refuse(badParameter, "EI0003: %s: %q is a sub-communicator, which cannot be divided; use its parent", call, c.name)
	case rankNum == 0 || int64(rankNum) > int64(c.size):
		return refuse(badParameter, "EI0003: %s: rankNum %d; 1 to %d are possible", call, rankNum, c.size)
	case subCommRankID >= rankNum:
		return refuse(badParameter, "EI0003: %s: subCommRankId %d of %d ranks", call, subCommRankID, rankNum)
	}
	members := slices.Clone(unsafe.Slice(rankIDs, rankNum))
	for _, m := range members {
		if err := c.checkRank(call, "rankIds member", m); err != nil {
			return err
		}
	}
	switch {
	case twice(members):
		return refuse(badParameter, "EI0003: %s: rankIds %v are not distinct", call, members)
	case int(members[subCommRankID]) != c.rank:
		return refuse(badParameter, "EI0003: %s: rankIds[%d] is %d, but this is rank %d of %q", call, subCommRankID, members[subCommRankID], c.rank, c.name)
	}
	cfg, err := l.readConfig(call, uint64(config))
	if err != nil {
		return err
	}
	cfg.name = cmp.Or(cfg.name, fmt.Sprintf("%s_sub_%d", c.name, subCommID))
	if err := cmp.Or(c.linked(), c.reason()); err != nil {
		return refuse(remoteError, "%s: %v", call, err)
	}
	owner, err := l.ownerOf(t, call)
	if err != nil {
		return err
	}
	sub, err := c.derive(cfg, owner, fmt.Sprintf("%d/%v", subCommID, members), members, int(subCommRankID))
	if err != nil {
		return err
	}
	subComm.Set(sub.publish())
	return nil
}
