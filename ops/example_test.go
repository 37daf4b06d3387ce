package ops_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/mask"
)

// exampleStream opens device 0. close ends all of it.
func exampleStream() (st *acl.Stream, reg *ops.Registry, close func()) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	if st, err = dev.NewStream(); err != nil {
		log.Fatal(err)
	}
	if reg, err = ops.NewRegistry(ops.EnvOf(dev)); err != nil {
		log.Fatal(err)
	}
	return st, reg, func() {
		if err := errors.Join(reg.Close(), st.Close(), dev.Close(), rt.Close()); err != nil {
			log.Fatal(err)
		}
	}
}

// Rows are divided by their root mean square, by the kernel that fits best.
func Example() {
	ctx := context.Background()
	st, reg, close := exampleStream()
	defer close()
	var out []float32
	err := aclnn.Compose(st, func(s *aclnn.Scope) {
		x, w := s.Tensor(aclnn.Float32, 2, 2), s.Tensor(aclnn.Float32, 2)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, x, []float32{7, 1, 1, -7}) })
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, w, []float32{1, 10}) })
		args := &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-12, Out: s.Like(x)}
		fmt.Println(reg.RMSNorm().Explain(args))
		s.Do(func() error { return reg.RMSNorm().Run(ctx, st, args) })
		s.Do(func() (err error) {
			out, err = aclnn.ToSlice[float32](ctx, st, args.Out)
			return err
		})
	})
	fmt.Println(out, err)
	// Output:
	// rms_norm: RmsNorm; composite comes after it
	// [1.4 2 0.2 -14] <nil>
}

// What the device would refuse, or compute otherwise than meant, is refused before anything is
// launched, with the reason and the remedy.
func ExampleOp_Run() {
	ctx := context.Background()
	st, reg, close := exampleStream()
	defer close()
	err := aclnn.Compose(st, func(s *aclnn.Scope) {
		// Two sequences of 3 and 5 tokens, packed, and a mask that knows nothing of their border.
		x := s.Tensor(aclnn.BFloat16, 8, 2, 64)
		s.Do(func() error {
			return reg.Attention().Run(ctx, st, &ops.AttentionArgs{
				Query: x, Key: x, Value: x, Layout: ops.TND, Mask: mask.Causal{}, Scale: 0.125, Out: s.Like(x),
			})
		})
	})
	fmt.Println(errors.Is(err, ops.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// attention: ops: invalid argument: mask refused: causal at either corner for TND with B=1, N=2, Sq=8, Skv=8: layout TND holds packed sequences; wrap the mask: mask.Varlen{CuQueries: …, Within: …}
}

// A pinned operator keeps its kernel: what comes later is refused, and not preferred silently.
func ExampleOp_Pin() {
	_, reg, close := exampleStream()
	defer close()
	fmt.Println(reg.RMSNorm().Kernels())
	if err := reg.RMSNorm().Pin("composite"); err != nil {
		log.Fatal(err)
	}
	err := reg.RMSNorm().Register(ops.Kernel[ops.RMSNormArgs, key.RMSNorm]{
		Name: "mine", Run: func(context.Context, *acl.Stream, *ops.RMSNormArgs) error { return nil },
	})
	fmt.Println(errors.Is(err, ops.ErrPinned))
	fmt.Println(err)
	// Output:
	// [RmsNorm composite]
	// true
	// ops: operator is pinned: kernel mine not registered, rms_norm is pinned to composite; unpin it first
}

// A kernel for rows of 4096 is preferred for these, and other rows go to the kernels that were
// there. Its Supports sees the key of the arguments, and not the tensors.
func ExampleOp_Register() {
	st, reg, close := exampleStream()
	defer close()
	err := reg.RMSNorm().Register(ops.Kernel[ops.RMSNormArgs, key.RMSNorm]{
		Name: "rows4096",
		Supports: func(env *ops.Env, k key.RMSNorm) error {
			if k.Width != 4096 || !k.Contiguous {
				return fmt.Errorf("it takes contiguous rows of 4096, not of %d", k.Width)
			}
			return nil
		},
		Run: func(ctx context.Context, st *acl.Stream, a *ops.RMSNormArgs) error {
			return nil // launch the operator of your package here
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		for _, width := range []int64{4096, 1024} {
			x, w := s.Tensor(aclnn.BFloat16, 8, width), s.Tensor(aclnn.BFloat16, width)
			fmt.Println(reg.RMSNorm().Explain(&ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: s.Like(x)}))
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// rms_norm: rows4096; RmsNorm comes after it; composite comes after it
	// rms_norm: RmsNorm; not rows4096: it takes contiguous rows of 4096, not of 1024; composite comes after it
}
