package aclnn_test

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// The length of a vector is computed from three operators. Their scratch tensors are freed
// together, and the first error of any step is the error of all.
func ExampleCompose() {
	ctx := context.Background()
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	st, err := dev.NewStream()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()

	var length [1]float32
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		x := s.Tensor(aclnn.Float32, 2)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, x, []float32{3, 4}) })
		square, sum := s.Like(x), s.Tensor(aclnn.Float32, 1)
		aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: x, Out: square})
		aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: square, Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: sum})
		aclnn.Launch(s, aclnn.InplaceSqrt, aclnn.InplaceSqrtParams{Self: sum})
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, length[:], sum) })
	})
	fmt.Println(length[0], err)

	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		x := s.Tensor(aclnn.Float32, 2)
		view := x.Narrow(0, 1, 2) // beyond the end
		s.Zero(view)
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, length[:], x) }) // is not called
	})
	fmt.Println(err)
	// Output:
	// 5 <nil>
	// aclnnInplaceZero(selfRef float32[2]ND): aclnn: slice 1:3:1 is out of range for axis 0 of float32[2]ND
}
