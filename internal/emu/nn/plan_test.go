package nn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestScheduled: while a schedule is written, a call is checked and described, floating-point numbers are not computed, small integers are,
// and numbers of rows are those of a balanced router, whatever it has chosen.
func TestScheduled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule")
	r := rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 40, SoC: "Ascend910B2", Schedule: path})
	p := rttest.Of(t, r)
	l, th := New(r), p.Thread(0)
	stream := p.Stream(th)
	device := func(d dtype.Type, shape ...int64) *op.Tensor {
		bytes := max(op.Count(shape)*int64(d.Bits())/8, 1)
		return &op.Tensor{Shape: shape, Strides: op.ContiguousStrides(shape), Storage: shape, DType: d, Format: dtype.ND, Addr: p.Out(th, "aclrtMalloc", 0, uint64(bytes), 0)}
	}
	fill := func(x *op.Tensor, values ...int32) {
		p.Must(th, "aclrtMemcpy", x.Addr, uint64(4*len(values)), rttest.Address(&values[0]), uint64(4*len(values)), 1)
	}
	read := func(x *op.Tensor) []int32 {
		values := make([]int32, x.Len())
		p.Must(th, "aclrtMemcpy", rttest.Address(&values[0]), uint64(4*len(values)), x.Addr, uint64(4*len(values)), 2)
		return values
	}
	launch := func(name string, a optest.Args) uint64 {
		declared := op.Find(name)
		id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == declared.Name })
		outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
		first := uint64(uintptr(outs.Data))
		if code := l.Prepare(th, id, append(l.words(t, declared, a), first, first+8)); code != 0 {
			return code
		}
		size, workspace := *(*uint64)(rt.Pointer(first)), uint64(0)
		if size > 0 {
			workspace = p.Out(th, "aclrtMalloc", 0, size, 0)
		}
		code := l.Execute(th, id, workspace, size, *(*uint64)(rt.Pointer(first + 8)), stream)
		p.Must(th, "aclrtSynchronizeStream", stream)
		return code
	}
	one := &op.Scalar{DType: dtype.Int32, Bits: [16]byte{1}}

	const rows, width = 1 << 16, 1 << 14 // 2 GiB
	x, w, y := device(dtype.BFloat16, rows, width), device(dtype.BFloat16, width, width), device(dtype.BFloat16, rows, width)
	require.Zero(t, launch("Matmul", optest.Args{"self": x, "mat2": w, "cubeMathType": 0, "out": y}))
	require.NotZero(t, launch("Matmul", optest.Args{"self": x, "mat2": x, "cubeMathType": 0, "out": y}), "phase one refuses it")

	a, b := device(dtype.Int32, 4), device(dtype.Int32, 4)
	fill(a, 1, 2, 3, 4)
	require.Zero(t, launch("Add", optest.Args{"self": a, "other": a, "alpha": one, "out": b}))
	require.Equal(t, []int32{2, 4, 6, 8}, read(b))
	f, g := device(dtype.Float32, 4), device(dtype.Float32, 4)
	fill(f, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000)
	require.Zero(t, launch("Add", optest.Args{"self": f, "other": f, "alpha": one, "out": g}))
	require.Equal(t, make([]int32, 4), read(g))

	tokens, choices, sums := device(dtype.BFloat16, 6, 8), device(dtype.Int32, 6, 2), device(dtype.Int32, 4)
	require.Zero(t, launch("MoeInitRoutingV2", optest.Args{
		"x": tokens, "expertIdx": choices, "expertNumOptional": 4, "expertTokensCountOrCumsumFlagOptional": 1, "expandedXOut": device(dtype.BFloat16, 12, 8),
		"expandedRowIdxOut": device(dtype.Int32, 12), "expertTokensCountOrCumsumOutOptional": sums,
	}))
	require.Equal(t, []int32{3, 6, 9, 12}, read(sums), "though all choices are expert 0")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Contains(t, lines[0], `"launch":"aclnnMatmul","tensors":[{"name":"self","dtype":"bfloat16","shape":[65536,16384],"bytes":2147483648,"use":"r"}`)
	require.Contains(t, lines[0], `"args":{"cubeMathType":0}`)
}
