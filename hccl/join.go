package hccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/abi"
)

// Source describes the ranks of a new communicator and which of them the caller is: a RootInfo, a
// Table, or the host group of the ranks.
type Source interface {
	RootInfo | Table | *world.Group
}

// RootInfo is the source of a communicator whose ranks share an identifier. One rank makes it with
// NewRootInfo and passes it to the others by other means; each rank sets Rank and Size. One RootInfo
// serves one communicator. In the emulator it contains a secret.
type RootInfo struct {
	ID   [abi.HCCL_ROOT_INFO_BYTES]byte // from NewRootInfo, the same on all ranks
	Rank int                            // of the caller
	Size int                            // number of ranks
}

// NewRootInfo makes a root info on the stream's device (HcclGetRootInfo). The rank that calls it
// must also Join with it.
func NewRootInfo(st *acl.Stream) (RootInfo, error) {
	if err := usable(st); err != nil {
		return RootInfo{}, failed(fnHcclGetRootInfo.Name(), 0, 1, err)
	}
	var info hcclRootInfo
	if err := hcclGetRootInfo(contextOf(st), &info); err != nil {
		return RootInfo{}, failed(fnHcclGetRootInfo.Name(), 0, 1, err)
	}
	return RootInfo{ID: info.internal}, nil
}

// Table is the source of a communicator of all ranks of a rank table, a file that HCCL reads. The
// ranks wait for each other no later than in their first collective.
type Table struct {
	Path string
	Rank int // of the caller; the file has the number of ranks
}

// Join makes the caller's end of a communicator and waits until all its ranks have called Join, at
// most until ctx ends and at most HCCL_CONNECT_TIMEOUT (HcclCommInitRootInfo,
// HcclCommInitClusterInfo, and with a configuration their Config forms). Ranks in one process call
// it from separate goroutines. It fails with ErrJoin if ranks are missing. A host group carries the
// root info of its rank 0 to the others.
//
// HCCL cannot cancel the call: if ctx ends first, the call continues in the background until
// HCCL_CONNECT_TIMEOUT, and the communicator is destroyed if it succeeds.
func Join[S Source](ctx context.Context, st *acl.Stream, source S, config Config) (*Comm, error) {
	switch s := any(source).(type) {
	case RootInfo:
		return s.join(ctx, st, config)
	case Table:
		return s.join(ctx, st, config)
	}
	return joinGroup(ctx, st, any(source).(*world.Group), config)
}

func (r RootInfo) join(ctx context.Context, st *acl.Stream, config Config) (*Comm, error) {
	j := joining{fnHcclCommInitRootInfo, r.Rank, r.Size}
	if config != (Config{}) {
		j.f = fnHcclCommInitRootInfoConfig
	}
	if r.Rank < 0 || r.Rank >= r.Size || int64(r.Size) > 1<<32-1 {
		return nil, j.failed(invalid("rank %d of %d ranks", r.Rank, r.Size))
	}
	shared := hcclRootInfo{r.ID}
	return j.one(ctx, st, config, func(current aclrtContext, config *hcclCommConfig) (hcclComm, error) {
		if config == nil {
			return hcclCommInitRootInfo(current, uint32(r.Size), &shared, uint32(r.Rank))
		}
		return hcclCommInitRootInfoConfig(current, uint32(r.Size), &shared, uint32(r.Rank), config)
	})
}

func (t Table) join(ctx context.Context, st *acl.Stream, config Config) (*Comm, error) {
	j := joining{fnHcclCommInitClusterInfo, t.Rank, 0}
	if config != (Config{}) {
		j.f = fnHcclCommInitClusterInfoConfig
	}
	if t.Path == "" || t.Rank < 0 || int64(t.Rank) > 1<<32-1 {
		return nil, j.failed(invalid("rank %d of the table %q", t.Rank, t.Path))
	}
	text := append([]byte(t.Path), 0)
	return j.one(ctx, st, config, func(current aclrtContext, config *hcclCommConfig) (hcclComm, error) {
		if config == nil {
			return hcclCommInitClusterInfo(current, &text[0], uint32(t.Rank))
		}
		return hcclCommInitClusterInfoConfig(current, &text[0], uint32(t.Rank), config)
	})
}

func joinGroup(ctx context.Context, st *acl.Stream, g *world.Group, config Config) (*Comm, error) {
	if g == nil {
		return nil, failed(fnHcclCommInitRootInfo.Name(), 0, 0, invalid("the group is nil"))
	}
	id, err := world.Share(ctx, g, 0, func() ([]byte, error) {
		info, err := NewRootInfo(st)
		return info.ID[:], err
	})
	if err != nil {
		return nil, err
	}
	info := RootInfo{Rank: g.Rank(), Size: g.Size()}
	copy(info.ID[:], id)
	return info.join(ctx, st, config)
}

// JoinAll makes the communicator of devices in this process, one per stream; the first is rank 0
// (HcclCommInitAll). ctx bounds the call as in Join. Call the collectives of its ranks from separate
// goroutines, because the first collective waits for its peers.
func JoinAll(ctx context.Context, streams ...*acl.Stream) ([]*Comm, error) {
	j := joining{f: fnHcclCommInitAll, size: len(streams)}
	if len(streams) == 0 {
		return nil, j.failed(invalid("no streams"))
	}
	devices, handles := make([]int32, len(streams)), make([]hcclComm, len(streams))
	for i, st := range streams {
		if err := usable(st); err != nil {
			return nil, j.failed(err)
		}
		devices[i] = int32(st.Device().ID())
	}
	return j.run(ctx, func() ([]*Comm, error) {
		if err := hcclCommInitAll(contextOf(streams[0]), uint32(len(streams)), &devices[0], &handles[0]); err != nil {
			return nil, j.failed(err)
		}
		comms, errs := make([]*Comm, len(handles)), make([]error, len(handles))
		for i, h := range handles {
			comms[i], errs[i] = adopt(h, contextOf(streams[i]), streams[i].Device())
		}
		if err := errors.Join(errs...); err != nil {
			return nil, errors.Join(err, closeAll(comms))
		}
		return comms, nil
	})
}

func closeAll(comms []*Comm) error {
	errs := make([]error, len(comms))
	for i, c := range comms {
		errs[i] = c.Close()
	}
	return errors.Join(errs...)
}

// joining is a blocking call that makes communicators.
type joining struct {
	f          *cshim.Func
	rank, size int // size 0: HCCL determines it
}

func (j joining) failed(err error) error {
	var e *cshim.Error
	if errors.As(err, &e) && e.Code == abi.HCCL_E_INTERNAL {
		err = fmt.Errorf("%w: %w", ErrJoin, err) // ranks that contradict each other
	}
	return failed(j.f.Name(), j.rank, j.size, err)
}

// interrupted is the error of a join that its context ended.
func (j joining) interrupted(ctx context.Context) error {
	class := ErrJoin
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class = errLate
	}
	return j.failed(fmt.Errorf("%w: %w", class, context.Cause(ctx)))
}

// one makes one communicator with create, which receives nil for the zero Config.
func (j joining) one(ctx context.Context, st *acl.Stream, config Config, create func(current aclrtContext, config *hcclCommConfig) (hcclComm, error)) (*Comm, error) {
	if err := usable(st); err != nil {
		return nil, j.failed(err)
	}
	var encoded *hcclCommConfig
	if config != (Config{}) {
		var err error
		if encoded, err = config.encode(st.Device().Runtime().SoC()); err != nil {
			return nil, j.failed(err)
		}
	}
	made, err := j.run(ctx, func() ([]*Comm, error) {
		handle, err := create(contextOf(st), encoded)
		if err != nil {
			return nil, j.failed(err)
		}
		c, err := adopt(handle, contextOf(st), st.Device())
		return []*Comm{c}, err
	})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// run makes the call and waits for it, at most until ctx ends.
func (j joining) run(ctx context.Context, call func() ([]*Comm, error)) ([]*Comm, error) {
	if ctx == nil {
		return nil, j.failed(errNoContext)
	}
	made, ended, err := await(ctx, call, func(late []*Comm) { _ = closeAll(late) }) // no caller is left to receive the error
	if ended {
		return nil, j.interrupted(ctx)
	}
	return made, err
}
