package aclnn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
)

// onStream runs an example with a stream of the first device.
func onStream(example func(ctx context.Context, st *acl.Stream) error) {
	err := func() (err error) {
		rt, err := acl.Open(acl.Config{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rt.Close()) }()
		dev, err := rt.Device(0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		st, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		return example(context.Background(), st)
	}()
	if err != nil {
		fmt.Println(err)
	}
}

// Values of any Go type become a tensor of any dtype that holds them, and come back.
func ExampleFromSlice() {
	onStream(func(ctx context.Context, st *acl.Stream) error {
		x, err := aclnn.FromSlice(ctx, st, aclnn.BFloat16, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		if err != nil {
			return err
		}
		defer x.Close()
		y, err := aclnn.Ones(st, aclnn.BFloat16, 3, 2)
		if err != nil {
			return err
		}
		defer y.Close()
		product, err := aclnn.New(st, aclnn.BFloat16, 2, 2)
		if err != nil {
			return err
		}
		defer product.Close()
		err = aclnn.Matmul(st, aclnn.MatmulParams{Self: x, Mat2: y, Out: product, CubeMathType: aclnn.CubeKeepDType})
		if err != nil {
			return err
		}
		values, err := aclnn.ToSlice[float32](ctx, st, product)
		fmt.Println(values)
		return err
	})
	// Output: [6 6 15 15]
}

// A view is no copy; ToSlice reads it as if it were a tensor of its own.
func ExampleToSlice() {
	onStream(func(ctx context.Context, st *acl.Stream) error {
		x, err := aclnn.FromSlice(ctx, st, aclnn.Int64, []int{1, 2, 3, 4, 5, 6}, 2, 3)
		if err != nil {
			return err
		}
		defer x.Close()
		columns, err := aclnn.ToSlice[int](ctx, st, x.Transpose(0, 1))
		if err != nil {
			return err
		}
		last, err := aclnn.ToSlice[int32](ctx, st, x.Select(1, x.Dim(1)-1))
		if err != nil {
			return err
		}
		fmt.Println(columns, last)
		_, err = aclnn.ToSlice[float32](ctx, st, x)
		fmt.Println(errors.Is(err, acl.ErrInvalidArgument), err)
		return nil
	})
	// Output:
	// [1 4 2 5 3 6] [3 6]
	// true aclnn: int64[2,3]ND cannot become values of type float32
}

func ExamplePrint() {
	onStream(func(ctx context.Context, st *acl.Stream) error {
		x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float64{1, -2.5, 30, 0, 0.25, 7}, 2, 3)
		if err != nil {
			return err
		}
		defer x.Close()
		if err := aclnn.Print(ctx, st, os.Stdout, x.Transpose(0, 1)); err != nil {
			return err
		}
		large, err := aclnn.Zeros(st, aclnn.Int32, 1000, 1000)
		if err != nil {
			return err
		}
		defer large.Close()
		return aclnn.Print(ctx, st, os.Stdout, large)
	})
	// Output:
	// float32[3,2]ND strides[1,3]
	// [[ 1.0000,  0.0000],
	//  [-2.5000,  0.2500],
	//  [30.0000,  7.0000]]
	// int32[1000,1000]ND
	// [[0, 0, 0, ..., 0, 0, 0],
	//  [0, 0, 0, ..., 0, 0, 0],
	//  [0, 0, 0, ..., 0, 0, 0],
	//  ...,
	//  [0, 0, 0, ..., 0, 0, 0],
	//  [0, 0, 0, ..., 0, 0, 0],
	//  [0, 0, 0, ..., 0, 0, 0]]
}

// A rank reads its rows of a weight, in the dtype that it computes in, and writes them again.
func ExampleLoad() {
	folder, err := os.MkdirTemp("", "weights")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	weight := []half.BFloat16{0x3f80, 0x4000, 0x4040, 0x4080} // 1, 2, 3, 4
	if err := safetensors.WriteFile(path, []safetensors.Data{safetensors.Of("w", weight, 4, 1)}, nil); err != nil {
		fmt.Println(err)
		return
	}

	onStream(func(ctx context.Context, st *acl.Stream) error {
		f, err := safetensors.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		w, err := f.Tensor("w")
		if err != nil {
			return err
		}
		rank, ranks := 1, 2
		rows, err := w.Narrow(0, rank*4/ranks, 4/ranks)
		if err != nil {
			return err
		}
		x, err := aclnn.Load(ctx, st, aclnn.Float32, rows)
		if err != nil {
			return err
		}
		defer x.Close()
		if err := aclnn.Print(ctx, st, os.Stdout, x); err != nil {
			return err
		}

		out, err := safetensors.Create(fmt.Sprintf("%s.rank%d", path, rank), []safetensors.Info{x.Info("w")}, nil)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := aclnn.Save(ctx, st, out, "w", x); err != nil {
			return err
		}
		return out.Commit()
	})
	files, err := filepath.Glob(path + "*")
	fmt.Println(len(files), err)
	// Output:
	// float32[2,1]ND
	// [[3.],
	//  [4.]]
	// 2 <nil>
}
