package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

// launch is a call of a usual operator on small tensors.
type launch struct {
	name        string
	args        optest.Args
	allocations float64 // at most
}

func launches(t testing.TB) []launch {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1, 2) }
	one := &op.Scalar{DType: dtype.Float32}
	return []launch{
		{"Add", optest.Args{"self": f(4, 8), "other": f(4, 8), "alpha": one, "out": f(4, 8)}, 1},
		{"Mul", optest.Args{"self": f(4, 8), "other": f(8), "out": f(4, 8)}, 1},
		{"Muls", optest.Args{"self": f(4, 8), "other": one, "out": f(4, 8)}, 1},
		{"Exp", optest.Args{"self": f(4, 8), "out": f(4, 8)}, 1},
		{"Silu", optest.Args{"self": f(4, 8), "out": f(4, 8)}, 1},
		{"Cast", optest.Args{"self": f(4, 8), "dtype": int64(dtype.Float16), "out": optest.Tensor(t, dtype.Float16, []int64{4, 8})}, 1},
		{"InplaceCopy", optest.Args{"selfRef": f(4, 8), "src": f(4, 8)}, 1},
		{"RmsNorm", optest.Args{"x": f(4, 8), "gamma": f(8), "epsilon": 1e-6, "yOut": f(4, 8), "rstdOut": f(4, 1)}, 4},
		{"Matmul", optest.Args{"self": f(4, 8), "mat2": f(8, 8), "cubeMathType": 0, "out": f(4, 8)}, 8},
		{"Mm", optest.Args{"self": f(4, 8), "mat2": f(8, 8), "cubeMathType": 0, "out": f(4, 8)}, 8},
		{"Softmax", optest.Args{"self": f(4, 8), "dim": 1, "out": f(4, 8)}, 1},
		{"InplaceZero", optest.Args{"selfRef": f(4, 8)}, 2},
		{"InplaceAdd", optest.Args{"selfRef": f(4, 8), "other": f(4, 8), "alpha": one}, 1},
		{"Embedding", optest.Args{"weight": f(4, 8), "indices": optest.Tensor(t, dtype.Int64, []int64{3}, 0), "out": f(3, 8)}, 8},
		{"Sigmoid", optest.Args{"self": f(4, 8), "out": f(4, 8)}, 1},
		{"Div", optest.Args{"self": f(4, 8), "other": f(4, 8), "out": f(4, 8)}, 1},
		{"Sub", optest.Args{"self": f(4, 8), "other": f(4, 8), "alpha": one, "out": f(4, 8)}, 1},
		{"GeTensor", optest.Args{"self": f(4, 8), "other": f(4, 8), "out": optest.Tensor(t, dtype.Bool, []int64{4, 8})}, 1},
		{"ReduceSum", optest.Args{"self": f(4, 8), "dims": []int64{1}, "keepDims": false, "dtype": int64(dtype.Float32), "out": f(4)}, 4},
		{"SWhere", optest.Args{"condition": optest.Tensor(t, dtype.Bool, []int64{4, 8}, 1), "self": f(4, 8), "other": f(4, 8), "out": f(4, 8)}, 1},
	}
}

// launcher returns a function that launches the call, both phases, and computes it.
func (l launch) launcher(t testing.TB) func() {
	lib, thread := New(rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20})), new(rt.Thread)
	o := op.Find(l.name)
	require.NotNil(t, o, l.name)
	words := lib.words(t, o, l.args)
	scratch := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{1 << 16}, nil)
	return func() {
		x, err := lib.prepare(thread, o, implementations[o.Name], words)
		if err == nil {
			x.end(true)
			x.memory, x.workspace = optest.Memory{}, uint64(uintptr(scratch.Data))
			err = x.task.Run()
		}
		if err != nil {
			t.Fatal(err)
		}
		if x.task.Then != nil {
			x.task.Then()
		}
	}
}

// words returns the arguments of phase one in the form in which programs pass them.
func (l *Library) words(t testing.TB, o *op.Operator, args optest.Args) (words []uint64) {
	for _, p := range o.Params {
		w := uint64(0)
		switch v := args[p.Name].(type) {
		case *op.Tensor:
			w = l.rt.Handles.New(rt.TensorKind, v)
		case *op.Scalar:
			w = l.rt.Handles.New(rt.ScalarKind, v)
		case []int64:
			w = l.rt.Handles.New(rt.IntArrayKind, &intArray{values: v})
		case string:
			text := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{int64(len(v)) + 1}, bytesOf(v+"\x00"))
			w = uint64(uintptr(text.Data))
		case int:
			w = uint64(v)
		case int64:
			w = uint64(v)
		case float64:
			w = math.Float64bits(v)
		}
		words = append(words, w)
	}
	return words
}

// BenchmarkLaunch measures both phases of calls on small tensors, where the arithmetic takes little of the time.
func BenchmarkLaunch(b *testing.B) {
	for _, l := range launches(b) {
		b.Run(l.name, func(b *testing.B) {
			run := l.launcher(b)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
