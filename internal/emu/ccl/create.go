package ccl

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/goascend/cann/internal/emu/rt"
)

// random is n random bytes as text.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func all(int) bool { return true }

// initAll makes one communicator per device of this process.
func (l *Library) initAll(t *rt.Thread, a []uint64) uint64 { return answer(t, l.initDevices(a)) }

func (l *Library) initDevices(a []uint64) error {
	const call = "HcclCommInitAll"
	n := int(uint32(a[0]))
	switch {
	case l.invalid != nil:
		return l.invalid
	case n == 0:
		return refuse(badParameter, "EI0003: %s: ndev is 0", call)
	}
	if err := notNull(call, []string{"devices", "comms"}, a[1], a[2]); err != nil {
		return err
	}
	if n > l.rt.DeviceCount() {
		return refuse(badParameter, "EI0003: %s: ndev is %d, there are %d devices", call, n, l.rt.DeviceCount())
	}
	devices := rt.Read[int32](a[1], uint64(n))
	if twice(devices) {
		return refuse(badParameter, "EI0003: %s: devices %v are not distinct", call, devices)
	}
	for _, d := range devices {
		if d < 0 || int(d) >= l.rt.DeviceCount() {
			return refuse(badParameter, "EI0003: %s: device %d does not exist, there are %d", call, d, l.rt.DeviceCount())
		}
	}
	id := random(16)
	comms := make([]*comm, 0, n)
	for i, d := range devices {
		c, err := l.newComm(id, int(d), i, n)
		if err == nil {
			comms = append(comms, c)
			err = c.enter(id, all)
		}
		if err != nil {
			for _, made := range comms {
				made.close()
			}
			return refuse(internal, "%s: device %d: %v", call, d, err)
		}
	}
	for i, c := range comms {
		rt.Write(a[2]+8*uint64(i), c.publish())
	}
	return nil
}

// createSub makes a communicator of some ranks of another one.
func (l *Library) createSub(t *rt.Thread, a []uint64) uint64 {
	return answer(t, l.createSubComm(a[0], uint32(a[1]), a[2], a[3], uint32(a[4]), a[5], a[6]))
}

const noSubComm = 0xFFFFFFFF

func (l *Library) createSubComm(parent uint64, n uint32, ids, id uint64, rank uint32, config, out uint64) error {
	const call = "HcclCreateSubCommConfig"
	if err := notNull(call, []string{"comm", "config", "subComm"}, parent, config, out); err != nil {
		return err
	}
	c, err := l.usable(call, rt.Read[uint64](parent, 1)[0])
	switch {
	case err != nil:
		return err
	case ids == 0 && uint32(id) == noSubComm:
		return nil // this rank is no member
	case ids == 0 || uint32(id) == noSubComm:
		return refuse(badParameter, "EI0003: %s: a rank that is no member passes null rankIds and subCommId 0xFFFFFFFF, a member neither", call)
	case c.sub:
		return refuse(badParameter, "EI0003: %s: %q is a sub-communicator, which cannot be divided; use its parent", call, c.name)
	case n == 0 || int64(n) > int64(c.size):
		return refuse(badParameter, "EI0003: %s: rankNum %d; 1 to %d are possible", call, n, c.size)
	case rank >= n:
		return refuse(badParameter, "EI0003: %s: subCommRankId %d of %d ranks", call, rank, n)
	}
	members := rt.Read[uint32](ids, uint64(n))
	for _, m := range members {
		if err := c.checkRank(call, "rankIds member", m); err != nil {
			return err
		}
	}
	switch {
	case twice(members):
		return refuse(badParameter, "EI0003: %s: rankIds %v are not distinct", call, members)
	case int(members[rank]) != c.rank:
		return refuse(badParameter, "EI0003: %s: rankIds[%d] is %d, but this is rank %d of %q", call, rank, members[rank], c.rank, c.name)
	}
	cfg, err := readConfig(call, config)
	if err != nil {
		return err
	}
	name := cfg.name
	if name == "" {
		name = fmt.Sprintf("%s_sub_%d", c.name, id)
	}
	if err := c.linked(); err != nil {
		return refuse(remoteError, "%s: %v", call, err)
	}
	sub, err := c.derive(name, fmt.Sprintf("%d/%v", id, members), members, int(rank))
	if err != nil {
		return err
	}
	rt.Write(out, sub.publish())
	return nil
}
