package hccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Join makes the communicator of a root info and waits until all size ranks have called it, at most
// HCCL_CONNECT_TIMEOUT (HcclCommInitRootInfo). Ranks in one process must call it from separate
// goroutines. It fails with ErrJoin when ranks do not come.
func Join(st *acl.Stream, info *RootInfo, rank, size int) (*Comm, error) {
	return joining{fnHcclCommInitRootInfo, rank, size, nil}.root(context.Background(), st, info)
}

// JoinConfig is Join with a configuration and a context (HcclCommInitRootInfoConfig). HCCL cannot
// cancel the call: if the context ends first, the call continues in the background until
// HCCL_CONNECT_TIMEOUT, and the communicator is destroyed if it succeeds.
func JoinConfig(ctx context.Context, st *acl.Stream, info *RootInfo, rank, size int, config Config) (*Comm, error) {
	return joining{fnHcclCommInitRootInfoConfig, rank, size, &config}.root(ctx, st, info)
}

func (j joining) root(ctx context.Context, st *acl.Stream, info *RootInfo) (*Comm, error) {
	if info == nil {
		return nil, j.failed(invalid("no root info"))
	}
	if j.rank < 0 || j.rank >= j.size || int64(j.size) > 1<<32-1 {
		return nil, j.failed(invalid("rank %d of %d ranks", j.rank, j.size))
	}
	shared := hcclRootInfo{*info}
	return j.run(ctx, st, func(current aclrtContext, config *hcclCommConfig) (hcclComm, error) {
		if config == nil {
			return hcclCommInitRootInfo(current, uint32(j.size), &shared, uint32(j.rank))
		}
		return hcclCommInitRootInfoConfig(current, uint32(j.size), &shared, uint32(j.rank), config)
	})
}

// JoinTable makes the communicator of all ranks of a rank table, a file that HCCL reads
// (HcclCommInitClusterInfo). It needs no root info. The ranks wait for each other no later than in
// their first collective.
func JoinTable(st *acl.Stream, path string, rank int) (*Comm, error) {
	return joining{fnHcclCommInitClusterInfo, rank, 0, nil}.table(context.Background(), st, path)
}

// JoinTableConfig is JoinTable with a configuration and a context, which bounds the call as in
// JoinConfig (HcclCommInitClusterInfoConfig).
func JoinTableConfig(ctx context.Context, st *acl.Stream, path string, rank int, config Config) (*Comm, error) {
	return joining{fnHcclCommInitClusterInfoConfig, rank, 0, &config}.table(ctx, st, path)
}

func (j joining) table(ctx context.Context, st *acl.Stream, path string) (*Comm, error) {
	if path == "" || j.rank < 0 || int64(j.rank) > 1<<32-1 {
		return nil, j.failed(invalid("rank %d of the table %q", j.rank, path))
	}
	text := append([]byte(path), 0)
	return j.run(ctx, st, func(current aclrtContext, config *hcclCommConfig) (hcclComm, error) {
		if config == nil {
			return hcclCommInitClusterInfo(current, &text[0], uint32(j.rank))
		}
		return hcclCommInitClusterInfoConfig(current, &text[0], uint32(j.rank), config)
	})
}

// JoinAll makes the communicator of devices in this process, one per stream; the first is rank 0
// (HcclCommInitAll). Call the collectives of its ranks from separate goroutines, because the first
// collective waits for its peers.
func JoinAll(streams ...*acl.Stream) ([]*Comm, error) {
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
	if err := hcclCommInitAll(contextOf(streams[0]), uint32(len(streams)), &devices[0], &handles[0]); err != nil {
		return nil, j.failed(err)
	}
	var comms []*Comm
	var errs []error
	for i, h := range handles {
		c, err := adopt(h, contextOf(streams[i]), streams[i].Device().ID())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		comms = append(comms, c)
	}
	if len(errs) == 0 {
		return comms, nil
	}
	for _, c := range comms {
		errs = append(errs, c.Close())
	}
	return nil, errors.Join(errs...)
}

// joining is a blocking call that makes a communicator.
type joining struct {
	f          *cshim.Func
	rank, size int // size 0: HCCL determines it
	config     *Config
}

func (j joining) failed(err error) error {
	var e *cshim.Error
	if errors.As(err, &e) && e.Code == abi.HCCL_E_INTERNAL {
		err = fmt.Errorf("%w: %w", ErrJoin, err) // ranks that contradict each other
	}
	return failed(j.f.Name(), j.rank, j.size, err)
}

// cut is the error of a join that its context ended.
func (j joining) cut(ctx context.Context) error {
	class := ErrJoin
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class = errLate
	}
	return j.failed(fmt.Errorf("%w: %w", class, context.Cause(ctx)))
}

// run makes the communicator with create, which receives the configuration, or nil for none.
func (j joining) run(ctx context.Context, st *acl.Stream, create func(current aclrtContext, config *hcclCommConfig) (hcclComm, error)) (*Comm, error) {
	if ctx == nil {
		return nil, j.failed(invalid("the context.Context is nil"))
	}
	if err := usable(st); err != nil {
		return nil, j.failed(err)
	}
	var config *hcclCommConfig
	if j.config != nil {
		var err error
		if config, err = j.config.encode(); err != nil {
			return nil, j.failed(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, j.cut(ctx)
	}
	call := func() (*Comm, error) {
		handle, err := create(contextOf(st), config)
		if err != nil {
			return nil, j.failed(err)
		}
		return adopt(handle, contextOf(st), st.Device().ID())
	}
	if ctx.Done() == nil {
		return call()
	}
	type outcome struct {
		c   *Comm
		err error
	}
	made := make(chan outcome)
	go func() {
		c, err := call()
		select {
		case made <- outcome{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close() // no caller is left to receive the error
			}
		}
	}()
	select {
	case o := <-made:
		return o.c, o.err
	case <-ctx.Done():
		return nil, j.cut(ctx)
	}
}
