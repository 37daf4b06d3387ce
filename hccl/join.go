package hccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var (
	initRootInfo       = cshim.NewFunc(cshim.HCCL, "HcclCommInitRootInfo")
	initRootInfoConfig = cshim.NewFunc(cshim.HCCL, "HcclCommInitRootInfoConfig")
	initTable          = cshim.NewFunc(cshim.HCCL, "HcclCommInitClusterInfo")
	initTableConfig    = cshim.NewFunc(cshim.HCCL, "HcclCommInitClusterInfoConfig")
	initAll            = cshim.NewFunc(cshim.HCCL, "HcclCommInitAll")
)

// Join makes the communicator of a root info and waits until all size ranks have called it,
// at most HCCL_CONNECT_TIMEOUT (HcclCommInitRootInfo). The ranks of one process call it from
// a goroutine each. It fails with ErrJoin when ranks do not come.
func Join(st *acl.Stream, info *RootInfo, rank, size int) (*Comm, error) {
	return joining{initRootInfo, rank, size, nil}.root(context.Background(), st, info)
}

// JoinConfig is Join with a configuration and a context. HCCL cannot be called off: when the
// context ends first, the call goes on behind the caller's back until HCCL_CONNECT_TIMEOUT,
// and the communicator is destroyed should it come about (HcclCommInitRootInfoConfig).
func JoinConfig(ctx context.Context, st *acl.Stream, info *RootInfo, rank, size int, config Config) (*Comm, error) {
	return joining{initRootInfoConfig, rank, size, &config}.root(ctx, st, info)
}

func (j joining) root(ctx context.Context, st *acl.Stream, info *RootInfo) (*Comm, error) {
	if info == nil {
		return nil, j.failed(fmt.Errorf("%w: no root info", ErrArgument))
	}
	if j.rank < 0 || j.rank >= j.size || int64(j.size) > 1<<32-1 {
		return nil, j.failed(fmt.Errorf("%w: rank %d of %d ranks", ErrArgument, j.rank, j.size))
	}
	shared := *info
	return j.run(ctx, st, func(pin *runtime.Pinner) []uint64 {
		return []uint64{uint64(j.size), pinned(pin, shared[:]), uint64(j.rank)}
	})
}

// JoinTable makes the communicator of all ranks of a rank table, a file that HCCL reads; it
// has no root. The ranks meet at the latest in their first collective
// (HcclCommInitClusterInfo).
func JoinTable(st *acl.Stream, path string, rank int) (*Comm, error) {
	return joining{initTable, rank, 0, nil}.table(context.Background(), st, path)
}

// JoinTableConfig is JoinTable with a configuration and a context, which bounds the call as
// JoinConfig's does (HcclCommInitClusterInfoConfig).
func JoinTableConfig(ctx context.Context, st *acl.Stream, path string, rank int, config Config) (*Comm, error) {
	return joining{initTableConfig, rank, 0, &config}.table(ctx, st, path)
}

func (j joining) table(ctx context.Context, st *acl.Stream, path string) (*Comm, error) {
	if path == "" || j.rank < 0 || int64(j.rank) > 1<<32-1 {
		return nil, j.failed(fmt.Errorf("%w: rank %d of the table %q", ErrArgument, j.rank, path))
	}
	text := append([]byte(path), 0)
	return j.run(ctx, st, func(pin *runtime.Pinner) []uint64 {
		return []uint64{pinned(pin, text), uint64(j.rank)}
	})
}

// JoinAll makes the communicator of the streams' devices, which are in this process, the
// first being rank 0. Collectives of its ranks are called from a goroutine each, because the
// first waits for its peers (HcclCommInitAll).
func JoinAll(streams ...*acl.Stream) ([]*Comm, error) {
	j := joining{f: initAll, size: len(streams)}
	if len(streams) == 0 {
		return nil, j.failed(fmt.Errorf("%w: no streams", ErrArgument))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	devices, handles := make([]int32, len(streams)), make([]uint64, len(streams))
	for i, st := range streams {
		devices[i] = int32(st.Device().ID())
	}
	// HCCL sets each device in turn, so the thread's context is not what it was.
	call := cshim.Call{Args: [cshim.Args]uint64{uint64(len(streams)), pinned(&pin, devices), pinned(&pin, handles)}, Rebinds: true}
	if err := call.Do(initAll, streams[0].ContextHandle()); err != nil {
		return nil, j.failed(err)
	}
	var comms []*Comm
	var errs []error
	for i, h := range handles {
		c, err := adopt(h, streams[i].ContextHandle())
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

// joining is a call that makes a communicator, and waits.
type joining struct {
	f          *cshim.Func
	rank, size int // size 0: the callee knows
	config     *Config
}

func (j joining) failed(err error) error {
	var e *cshim.Error
	if errors.As(err, &e) && e.Code == abi.HCCL_E_INTERNAL {
		err = fmt.Errorf("%w: %w", ErrJoin, err) // ranks that contradict each other
	}
	return failed(j.f.Name(), j.rank, j.size, err)
}

// run calls with the arguments, which are followed by the configuration and the handle.
func (j joining) run(ctx context.Context, st *acl.Stream, arguments func(*runtime.Pinner) []uint64) (*Comm, error) {
	var config []byte
	if j.config != nil {
		var err error
		if config, err = j.config.encode(); err != nil {
			return nil, j.failed(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, j.failed(fmt.Errorf("%w: %w", ErrJoin, context.Cause(ctx)))
	}
	call := func() (*Comm, error) {
		var pin runtime.Pinner
		defer pin.Unpin()
		args := arguments(&pin)
		if j.config != nil {
			args = append(args, pinned(&pin, config))
		}
		c := cshim.Call{Out: 1 << len(args)}
		copy(c.Args[:], args)
		if err := c.Do(j.f, st.ContextHandle()); err != nil {
			return nil, j.failed(err)
		}
		return adopt(c.Args[len(args)], st.ContextHandle())
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
				_ = c.Close() // nobody is left to tell
			}
		}
	}()
	select {
	case o := <-made:
		return o.c, o.err
	case <-ctx.Done():
		return nil, j.failed(fmt.Errorf("%w: %w", ErrJoin, context.Cause(ctx)))
	}
}
