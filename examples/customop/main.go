package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/customop/rowscale"
)

const about = "customop launches an operator of its own and prints the result: it shows how a program binds one."

func main() {
	err := command.New(os.Stdout, "customop", about, "go run -tags emu ./examples/customop").Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "customop:", err)
		os.Exit(1)
	}
}

// run scales the rows of a matrix of 2 × 3, shifts them, and prints them.
func run(ctx context.Context, out io.Writer) (err error) {
	// Without the package of the operator the error lists where it was looked for.
	if err := new(rowscale.RowScaleParams).Operator().Available(); err != nil {
		return err
	}
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer closing(&err, rt)
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	defer closing(&err, dev)
	st, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer closing(&err, st)
	x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		return err
	}
	defer closing(&err, x)
	scale, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{10, 100}, 2)
	if err != nil {
		return err
	}
	defer closing(&err, scale)
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		scaled := s.Tensor(aclnn.Float32, 2, 3)
		aclnn.Launch(s, rowscale.RowScale, rowscale.RowScaleParams{X: x, Scale: scale, Bias: scale, Factor: 0.5, Out: scaled})
		s.Do(func() error {
			rows, err := aclnn.ToSlice[float32](ctx, st, scaled)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, rows[:3], rows[3:])
			return err
		})
	})
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
