package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// codedWeight is a weight in codes, and the numbers that it stands for.
type codedWeight struct {
	codes         []int8
	scale, offset []float32
	values        []float32 // rounded to the dtype
}

// newCodedWeight makes random codes for [groups, in, out].
func newCodedWeight(b *opstest.Bench, dt aclnn.DType, bits int, groups, in, out, blocks int64, shifted bool) (w codedWeight) {
	limit := float32(int(1) << (bits - 1))
	for i, x := range opstest.Random(aclnn.Float32, 7, groups*in*out) { // between -1 and 1
		w.codes = append(w.codes, int8(min(max(limit*x, -limit), limit-1)))
		if i%13 == 0 {
			w.codes[i] = int8(-limit)
		}
	}
	w.scale, w.offset = opstest.Random(dt, 8, groups*blocks*out), make([]float32, groups*blocks*out)
	if shifted {
		for i := range w.offset {
			w.offset[i] = float32(i%15 - 7)
		}
	}
	for i, code := range w.codes {
		row, column := int64(i)/out, int64(i)%out
		at := (row/in*blocks+row%in/(in/blocks))*out + column
		w.values = append(w.values, (float32(code)+w.offset[at])*w.scale[at])
	}
	w.values = b.Read(b.Floats(dt, w.values, groups, in, out))
	return w
}

// packs returns codes of int4, eight in each int32.
func packs(codes []int8) []int32 {
	words := make([]int32, len(codes)/8)
	for i, c := range codes {
		words[i/8] |= int32(uint32(c&15) << (i % 8 * 4))
	}
	return words
}

// TestWeightQuantGroupedMatmul multiplies by codes with every kernel, list and storage, and compares with products in float64.
func TestWeightQuantGroupedMatmul(t *testing.T) {
	for _, c := range []struct {
		bits            int
		in, out, blocks int64
		sizes           []int64
	}{
		{8, 7, 5, 1, []int64{0, 4, 1}}, {8, 1, 1, 1, []int64{1}}, {8, 12, 9, 3, []int64{2, 3}}, {4, 45, 24, 1, []int64{5, 0, 3, 2}}, {4, 45, 24, 9, []int64{5, 0, 3, 2}},
		{4, 64, 8, 2, []int64{17}}, {4, 6, 16, 6, []int64{1, 0, 0, 2}}, {4, 16, 8, 1, []int64{0, 0}},
	} {
		for _, dt := range opstest.FloatTypes {
			for _, shifted := range []bool{false, true} {
				t.Run(fmt.Sprintf("int%d/%v/%dx%d in %d/%v/%v", c.bits, dt, c.in, c.out, c.blocks, c.sizes, shifted), func(t *testing.T) {
					b, e := opstest.New(t), int64(len(c.sizes))
					w := newCodedWeight(b, dt, c.bits, e, c.in, c.out, c.blocks, shifted)
					rows := int64(0)
					for _, n := range c.sizes {
						rows += n
					}
					x, biasType := opstest.Random(dt, 9, rows*c.in), dt
					if dt == aclnn.BFloat16 {
						biasType = aclnn.Float32
					}
					bias := opstest.Random(biasType, 10, e*c.out)
					var want []float32
					first := int64(0)
					for g, n := range c.sizes {
						values := w.values[int64(g)*c.in*c.out:]
						y := opstest.Product(int(n), int(c.in), int(c.out), func(i, l int) float32 { return x[(first+int64(i))*c.in+int64(l)] }, func(l, j int) float32 { return values[int64(l)*c.out+int64(j)] })
						for i := range y {
							y[i] += bias[int64(g)*c.out+int64(i)%c.out]
						}
						want, first = append(want, y...), first+n
					}
					shape := []int64{e, c.out}
					if c.blocks > 1 {
						shape = []int64{e, c.blocks, c.out}
					}
					forms := map[string]*aclnn.Tensor{}
					if c.bits == 4 {
						forms["packed"] = opstest.Data(b, aclnn.Int32, packs(w.codes), e, c.in, c.out/8)
					} else {
						forms["rows"] = opstest.Data(b, aclnn.Int8, w.codes, e, c.in, c.out)
						turned := make([]int8, len(w.codes))
						for i, code := range w.codes {
							g, at := int64(i)/(c.in*c.out), int64(i)%(c.in*c.out)
							turned[g*c.in*c.out+at%c.out*c.in+at/c.out] = code
						}
						forms["transposed"] = opstest.Data(b, aclnn.Int8, turned, e, c.out, c.in).Transpose(1, 2)
					}
					for _, k := range b.WeightQuantGroupedMatmul().Kernels() {
						require.NoError(t, b.WeightQuantGroupedMatmul().Pin(k))
						ran := 0
						for form, weight := range forms {
							for list, groups := range lists(b, c.sizes) {
								a := &ops.WeightQuantGroupedMatmulArgs{
									X: b.Floats(dt, x, rows, c.in), Weight: weight, Scale: b.Floats(dt, w.scale, shape...), Bias: b.Floats(biasType, bias, e, c.out), Groups: groups, Out: b.Empty(dt, rows, c.out),
								}
								if shifted {
									a.Offset = b.Floats(dt, w.offset, shape...)
								}
								if !opstest.Takes(b.WeightQuantGroupedMatmul(), a) {
									continue
								}
								ran++
								opstest.Run(b, b.WeightQuantGroupedMatmul(), a)
								b.Near(k+" "+form+" "+list, a.Out, want, 3*opstest.Tolerance(dt))
							}
						}
						require.Equal(t, k == "dequantised" || dt != aclnn.Float32 && (c.bits == 4 || c.blocks == 1), ran > 0, k)
						require.NoError(t, b.WeightQuantGroupedMatmul().Unpin())
					}
				})
			}
		}
	}
}

// TestWeightQuantGroupedMatmulExplained: what CANN's grouped products do not take is dequantised, and Explain has the reason.
func TestWeightQuantGroupedMatmulExplained(t *testing.T) {
	b := opstest.New(t)
	args := func(dt aclnn.DType, weight *aclnn.Tensor, out int64, scale ...int64) *ops.WeightQuantGroupedMatmulArgs {
		sizes := make([]int64, weight.Dim(0))
		sizes[0] = 6
		return &ops.WeightQuantGroupedMatmulArgs{X: b.Empty(dt, 6, weight.Dim(1)), Weight: weight, Scale: b.Empty(dt, scale...), Groups: ops.Groups{Host: sizes}, Out: b.Empty(dt, 6, out)}
	}
	explain := func(a *ops.WeightQuantGroupedMatmulArgs) string {
		return b.WeightQuantGroupedMatmul().Explain(a).String()
	}
	require.Contains(t, explain(args(aclnn.BFloat16, b.Empty(aclnn.Int8, 3, 16, 32), 32, 3, 32)), "weight_quant_grouped_matmul: GroupedMatmulV5")
	require.Contains(t, explain(args(aclnn.Float16, b.Empty(aclnn.Int32, 3, 16, 4), 32, 3, 2, 32)), "weight_quant_grouped_matmul: GroupedMatmulV5")
	for text, a := range map[string]*ops.WeightQuantGroupedMatmulArgs{
		"not float32": args(aclnn.Float32, b.Empty(aclnn.Int8, 3, 16, 32), 32, 3, 32),
		"int8 codes have a scale for each output there, not for blocks of 8 inputs": args(aclnn.BFloat16, b.Empty(aclnn.Int8, 3, 16, 32), 32, 3, 2, 32),
		"more than 1024 groups": args(aclnn.BFloat16, b.Empty(aclnn.Int8, 1025, 1, 1), 1, 1025, 1),
	} {
		require.Contains(t, explain(a), "weight_quant_grouped_matmul: dequantised; not GroupedMatmulV5: ")
		require.Contains(t, explain(a), text)
	}
	reg, err := ops.NewRegistry(ops.Env{SoC: "Ascend310P3"})
	require.NoError(t, err)
	require.Contains(t, reg.WeightQuantGroupedMatmul().Explain(args(aclnn.Float16, b.Empty(aclnn.Int8, 3, 16, 32), 32, 3, 32)).String(), "dequantised; not GroupedMatmulV5: Ascend310P3 has no GroupedMatmulV5")
}

// TestWeightQuantGroupedMatmulRefused: wrong arguments are refused before anything is launched.
func TestWeightQuantGroupedMatmulRefused(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.BFloat16, shape...) }
	for text, change := range map[string]func(a *ops.WeightQuantGroupedMatmulArgs){
		"X is nil":                  func(a *ops.WeightQuantGroupedMatmulArgs) { a.X = nil },
		"Weight is nil":             func(a *ops.WeightQuantGroupedMatmulArgs) { a.Weight = nil },
		"Weight is bfloat16":        func(a *ops.WeightQuantGroupedMatmulArgs) { a.Weight = f(3, 16, 32) },
		"[groups, in, out/8]":       func(a *ops.WeightQuantGroupedMatmulArgs) { a.Weight = b.Empty(aclnn.Int8, 3, 16, 0) },
		"its columns must be":       func(a *ops.WeightQuantGroupedMatmulArgs) { a.X = f(6, 17) },
		"it must be [rows, in]":     func(a *ops.WeightQuantGroupedMatmulArgs) { a.X = f(2, 3, 16) },
		"must be contiguous, or of": func(a *ops.WeightQuantGroupedMatmulArgs) { a.Weight = b.Empty(aclnn.Int32, 3, 4, 16).Transpose(1, 2) },
		"divides the 16 inputs":     func(a *ops.WeightQuantGroupedMatmulArgs) { a.Scale = f(3, 3, 32) },
		"its shape must be [3 32]":  func(a *ops.WeightQuantGroupedMatmulArgs) { a.Scale = f(3, 31) },
		"Scale is float16":          func(a *ops.WeightQuantGroupedMatmulArgs) { a.Scale = b.Empty(aclnn.Float16, 3, 32) },
		"Offset is":                 func(a *ops.WeightQuantGroupedMatmulArgs) { a.Offset = f(3, 2, 32) },
		"Bias is bfloat16":          func(a *ops.WeightQuantGroupedMatmulArgs) { a.Bias = f(3, 32) },
		"Out is":                    func(a *ops.WeightQuantGroupedMatmulArgs) { a.Out = f(6, 31) },
		"one of Device and Host":    func(a *ops.WeightQuantGroupedMatmulArgs) { a.Groups = ops.Groups{} },
	} {
		a := &ops.WeightQuantGroupedMatmulArgs{X: f(6, 16), Weight: b.Empty(aclnn.Int8, 3, 16, 32), Scale: f(3, 32), Groups: ops.Groups{Host: []int64{1, 2, 3}}, Out: f(6, 32)}
		require.NoError(t, b.WeightQuantGroupedMatmul().Check(a), text)
		change(a)
		err := b.WeightQuantGroupedMatmul().Run(t.Context(), b.Stream, a)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
}
