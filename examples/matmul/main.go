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
)

const about = "matmul multiplies two small matrices and prints the product: it shows how a program begins."

func main() {
	err := command.New(os.Stdout, "matmul", about, "go run -tags emu ./examples/matmul").Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "matmul:", err)
		os.Exit(1)
	}
}

// run prints the product of a matrix of 2 × 3 and its transpose.
func run(ctx context.Context, out io.Writer) (err error) {
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
	// Compose launches operators in order. After an error it launches nothing, so one check does for
	// all; tensors of its scope are freed when it returns.
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		a, product := s.Tensor(aclnn.Float32, 2, 3), s.Tensor(aclnn.Float32, 2, 2)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, a, []float32{1, 2, 3, 4, 5, 6}) })
		aclnn.Launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a, Mat2: a.Transpose(0, 1), Out: product}) // queued, not run
		s.Do(func() error { return aclnn.Print(ctx, st, out, product) })                                  // waits
	})
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
