package hccl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/process"
)

func TestMain(m *testing.M) {
	if process.IsChild(newChild) {
		return
	}
	goleak.VerifyTestMain(acltest.Suite{M: m})
}

// child is a rank in its own process: a device, a stream and, after join, a host group and a
// communicator.
type child struct {
	st     *acl.Stream
	world  *world.Group
	comm   *hccl.Comm
	queued *aclnn.Tensor
	live   map[acl.Kind]int
	before process.Footprint
}

// How long children wait for each other, and how long an answer may take as a result.
const (
	joinLimit = 15 * time.Second
	answer    = 3 * time.Minute // longer than any test takes on a busy machine: it ends what hangs
)

// children are n processes whose collectives wait five seconds for each other.
func children(t *testing.T, n int) []*process.Child { return process.Start(t, n, quick...) }

var quick = []string{"HCCL_EXEC_TIMEOUT=5", "CANN_EMU_CONNECT_TIMEOUT=8s"}

func newChild() process.Do {
	s := &child{}
	if err := s.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return func(words []string) (int, string) {
		text, err := s.do(words)
		if err != nil {
			return 1, described(err)
		}
		return 0, text
	}
}

func (s *child) open() error {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	if s.st, err = dev.NewStream(); err != nil {
		return err
	}
	// The first use of a device opens descriptors that stay open.
	if err := s.st.Synchronize(context.Background()); err != nil {
		return err
	}
	s.live, s.before = acl.Live(), process.Measure()
	return nil
}

func (s *child) do(words []string) (string, error) {
	patience := answer
	if words[0] == "join" {
		patience = joinLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch words[0] {
	case "join": // address, rank, size
		place := world.Place{Address: words[1], Secret: "test"}
		_, _ = fmt.Sscan(strings.Join(words[2:], " "), &place.Rank, &place.Size)
		return "", s.join(ctx, place)
	case "reduce": // a tensor of ones; the answer is its sum over the ranks
		if err := s.queue(1 << 20); err != nil {
			return "", err
		}
		return s.wait(ctx)
	case "queue": // a reduction, without waiting for it
		return "", s.queue(1 << 20)
	case "wait": // for what was queued
		return s.wait(ctx)
	case "gather": // over the host group
		all, err := world.AllGather(ctx, s.world, s.world.Rank())
		return fmt.Sprint(all), err
	case "shared": // whether memory is shared with other ranks
		return fmt.Sprint(process.Measure().Shared > s.before.Shared), nil
	case "leave":
		return "", s.leave(ctx)
	case "check":
		return s.before.Settle(10*time.Second, func() (left []string) {
			if now := acl.Live(); !maps.Equal(now, s.live) {
				left = append(left, fmt.Sprintf("%v, not %v", now, s.live))
			}
			return left
		}), nil
	}
	return "", fmt.Errorf("unknown command %q", words)
}

func (s *child) join(ctx context.Context, place world.Place) (err error) {
	if s.world, err = world.Join(ctx, place, world.GroupConfig{}); err != nil {
		return err
	}
	s.comm, err = hccl.Join(ctx, s.st, s.world, hccl.Config{})
	return err
}

func (s *child) queue(n int64) (err error) {
	if s.queued, err = aclnn.New(s.st, aclnn.Float32, n); err != nil {
		return err
	}
	if err := aclnn.InplaceFillScalar(s.st, aclnn.InplaceFillScalarParams{Self: s.queued, Value: aclnn.Float(1)}); err != nil {
		return err
	}
	return s.comm.AllReduce(s.st, s.queued, s.queued, hccl.Sum)
}

// wait returns the first element of the queued result.
func (s *child) wait(ctx context.Context) (string, error) {
	if err := s.st.Synchronize(ctx); err != nil {
		return "", err
	}
	sum := make([]float32, 1)
	if err := aclnn.CopyFromDevice(ctx, s.st, sum, s.queued.Narrow(0, 0, 1)); err != nil {
		return "", err
	}
	return fmt.Sprint(sum[0]), s.free()
}

func (s *child) free() error {
	x := s.queued
	s.queued = nil
	if x == nil {
		return nil
	}
	return x.Close()
}

// leave closes everything made by join and queue, even after failures.
func (s *child) leave(ctx context.Context) error {
	_ = s.st.Synchronize(ctx) // it fails when a collective has
	err := s.free()
	if s.comm != nil {
		err = errors.Join(err, s.comm.Close())
	}
	if s.world != nil {
		err = errors.Join(err, s.world.Close())
	}
	s.comm, s.world = nil, nil
	return err
}

// sentinels are the errors that answers are compared with.
var sentinels = map[string]error{
	"acl.ErrInvalidArgument": acl.ErrInvalidArgument, "hccl.ErrJoin": hccl.ErrJoin, "hccl.ErrRemote": hccl.ErrRemote, "acl.ErrBusy": acl.ErrBusy,
	"world.ErrPortInUse": world.ErrPortInUse, "world.ErrRanksMissing": world.ErrRanksMissing, "world.ErrRankLost": world.ErrRankLost,
	"world.ErrDisagree": world.ErrDisagree, "world.ErrStranger": world.ErrStranger, "world.ErrRankFailed": world.ErrRankFailed,
	"acl.ErrPeerLost": acl.ErrPeerLost, "acl.ErrTimeout": acl.ErrTimeout, "acl.ErrAborted": acl.ErrAborted, "acl.ErrKernel": acl.ErrKernel,
}

// described prefixes an error's text with the sentinels that it matches.
func described(err error) string {
	var names []string
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("%v: %v", names, err)
}
