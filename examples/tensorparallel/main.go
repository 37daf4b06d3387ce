package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

const about = `tensorparallel trains a two-layer transformer on one device, then with its layers divided over two, and prints
the losses of both, which agree.`

func main() {
	f := command.New(os.Stdout, "tensorparallel [flags]", about, "go run -tags emu ./examples/tensorparallel", "go run -tags emu ./examples/tensorparallel -ranks 4 -steps 20")
	ranks := f.Int("ranks", 2, "ranks that share each layer: 1, 2 or 4")
	steps := f.Int("steps", 5, "steps of training")
	err := f.Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(context.Background(), os.Stdout, *ranks, *steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tensorparallel:", err)
		os.Exit(1)
	}
}

// run trains with one rank and with several, and prints the losses.
func run(ctx context.Context, out io.Writer, ranks, steps int) (err error) {
	if ranks < 1 || heads%ranks != 0 || steps < 1 {
		return fmt.Errorf("-ranks %d, -steps %d: the ranks must divide the %d heads, and the steps be positive", ranks, steps, heads)
	}
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer closing(&err, rt)
	var streams []*acl.Stream
	for id := range ranks {
		dev, err := rt.Device(id)
		if err != nil {
			return err
		}
		defer closing(&err, dev)
		st, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer closing(&err, st)
		streams = append(streams, st)
	}
	one, err := train(ctx, streams[0], nil, steps)
	if err != nil {
		return err
	}
	comms, err := hccl.JoinAll(ctx, streams...)
	if err != nil {
		return err
	}
	losses, errs := make([][]float32, ranks), make([]error, ranks)
	var group sync.WaitGroup
	for r := range ranks {
		group.Go(func() {
			losses[r], errs[r] = train(ctx, streams[r], comms[r], steps)
			errs[r] = errors.Join(errs[r], comms[r].Close())
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range one {
		fmt.Fprintf(out, "step %d  1 rank %.6f  %d ranks %.6f\n", i+1, one[i], ranks, losses[0][i])
	}
	return nil
}

// train returns the loss of each step. comm has the ranks that share each layer; it is nil for one rank.
func train(ctx context.Context, st *acl.Stream, comm parallel.Communicator, steps int) (losses []float32, err error) {
	reg, err := ops.NewRegistry(ops.EnvOf(st.Device()))
	if err != nil {
		return nil, err
	}
	defer closing(&err, reg)
	random, tokens := rand.New(rand.NewPCG(3, 4)), make([]int32, batch*length+1)
	for i := range tokens {
		tokens[i] = random.Int32N(words)
	}
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		m := newModel(ctx, s, parallel.NewTensorParallel(reg, comm, false), tokens)
		for i := range steps {
			losses = append(losses, m.step(i+1, reg)...)
		}
	})
	return losses, errors.Join(err, st.Synchronize(ctx))
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
