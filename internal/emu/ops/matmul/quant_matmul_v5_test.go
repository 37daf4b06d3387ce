package matmul

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// QuantMatmulV5 without groups has the values of its definition in every combination of types of its page, and
// QuantMatmulWeightNz has them with int8.
func TestQuantMatmulV5(t *testing.T) {
	const m, k, n = 3, 8, 16
	i8, i4, i32, u64, f, bf, half := dtype.Int8, dtype.Int4, dtype.Int32, dtype.Uint64, dtype.Float32, dtype.BFloat16, dtype.Float16
	none := dtype.Undefined
	a, b := make([]float64, m*k), make([]float64, k*n)
	for i := range a {
		a[i] = float64(i*5%16 - 8)
	}
	for i := range b {
		b[i] = float64(i*7%16 - 8)
	}
	for _, c := range []struct {
		x1, x2, scale dtype.Type
		rows          bool
		bias          dtype.Type
		offset        bool
		out           dtype.Type
	}{
		{i8, i8, u64, false, i32, false, half}, {i8, i8, dtype.Int64, false, none, false, half}, {i8, i8, u64, false, i32, true, i8}, {i8, i8, dtype.Int64, false, none, false, i8},
		{i8, i8, f, true, i32, false, bf}, {i8, i8, bf, true, bf, false, bf}, {i8, i8, bf, false, f, false, bf}, {i8, i8, f, false, bf, false, bf}, {i8, i8, f, true, half, false, half},
		{i8, i8, f, true, f, false, half}, {i8, i8, f, false, i32, false, i32}, {i8, i8, bf, false, none, false, i32},
		{i4, i4, u64, false, i32, false, half}, {i32, i32, u64, false, i32, false, half}, {i32, i4, bf, true, f, false, bf}, {i4, i32, f, true, half, false, half},
	} {
		what := fmt.Sprintf("%+v", c)
		scales, rows, bias, offset := []float64{.5, .25, .125, 1}, []float64{1}, []float64{0}, []float64{0}
		out := optest.Tensor(t, c.out, []int64{m, n})
		args := optest.Args{"x1": integers(t, c.x1, a, m, k), "x2": integers(t, c.x2, b, k, n), "out": out}
		switch c.scale {
		case u64, dtype.Int64:
			args["x2Scale"] = packedScales(t, c.scale, []int64{n}, repeated(scales, n))
		default:
			args["x2Scale"] = optest.Tensor(t, c.scale, []int64{n}, scales...)
		}
		if c.rows {
			rows = []float64{.5, 2, .25}
			args["x1Scale"] = optest.Tensor(t, f, []int64{m}, rows...)
		}
		if c.bias != none {
			bias = []float64{3, -20, 7}
			args["bias"] = optest.Tensor(t, c.bias, []int64{n}, bias...)
		}
		if c.offset {
			offset = []float64{5, -6}
			args["x2Offset"] = optest.Tensor(t, f, []int64{n}, offset...)
		}
		optest.Run(t, "QuantMatmulV5", args)
		var want []float64
		for i, sum := range optest.Times(a, b, k) {
			column := i % n
			before, after := 0.0, bias[column%len(bias)]
			if c.bias == i32 {
				before, after = after, 0
			}
			v := sum + before
			if c.out != i32 { // which is not scaled
				v = v*scales[column%4]*rows[i/n%len(rows)] + after + offset[column%len(offset)]
			}
			if c.out == i8 {
				v = optest.ToInt8(v)
			}
			want = append(want, v)
		}
		optest.CloseTo(t, what, want, optest.Values(out), max(optest.ResultLimit(c.out), 1e-9))
		if c.x2 != i8 {
			continue
		}
		tiled := optest.NZ(t, i8, []int64{k, n}, false, 32)
		optest.StoreNZ(t, tiled, args["x2"].(*op.Tensor))
		optest.Fill(out, 0)
		optest.Run(t, "QuantMatmulWeightNz", args.With(optest.Args{"x2": tiled}))
		optest.CloseTo(t, "NZ "+what, want, optest.Values(out), max(optest.ResultLimit(c.out), 1e-9))
	}

	x1, x2, scale := integers(t, i8, a, m, k), integers(t, i8, b, k, n), optest.Tensor(t, f, []int64{n}, 1)
	call := optest.Args{"x1": x1, "x2": x2, "x2Scale": scale, "out": optest.Tensor(t, bf, []int64{m, n})}
	for text, set := range map[string]optest.Args{
		"float32 scale without scales of rows": {"out": optest.Tensor(t, half, []int64{m, n})},
		"goes with an int8 result":             {"x2Offset": scale},
		"dtype":                                {"out": optest.Tensor(t, f, []int64{m, n})},
		"yOffset float32":                      {"yOffset": scale},
		"one element type":                     {"x1": integers(t, i4, a, m, k)},
	} {
		optest.Refused(t, op.InvalidParam, "QuantMatmulV5", call.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "QuantMatmulV5", call.With(optest.Args{"x2": integers(t, i32, b, k, n)}), "yOffset or x1Scale is null")
	call = optest.Args{"x1": integers(t, i4, a, k, m+1), "x2": integers(t, i4, b, k, n), "x2Scale": packedScales(t, u64, []int64{n}, repeated([]float64{1}, n)), "out": optest.Tensor(t, half, []int64{m + 1, n}), "transposeX1": true}
	optest.Refused(t, op.InvalidParam, "QuantMatmulV5", call, "do not take a transposed x1")
}

// integers returns a matrix of whole numbers: int8, int4, or int32 that hold eight of them each.
func integers(t *testing.T, d dtype.Type, v []float64, rows, columns int64) *op.Tensor {
	t.Helper()
	switch d {
	case dtype.Int8:
		return optest.Tensor(t, d, []int64{rows, columns}, v...)
	case dtype.Int4:
		return int4Tensor(t, []int64{rows, columns}, v)
	}
	x := optest.Tensor(t, d, []int64{rows, columns / 8})
	optest.StoreInt4(t, x, v)
	return x
}

// repeated returns n numbers that repeat v.
func repeated(v []float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v[i%len(v)]
	}
	return all
}

// A product of int8 by int4 adds yOffset to the scaled sums before the scales of the rows. The weight, of int32
// that hold eight int4 each, is in row-major order or in FRACTAL_NZ.
func TestQuantMatmulOfInt8ByInt4(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{3, 4, 16}, {2, 72, 32}, {1, 64, 128}} {
		a, b := optest.Int8s(1, int(s.m*s.k)), make([]float64, s.k*s.n)
		for i := range b {
			b[i] = float64(i*7%16 - 8)
		}
		rows, shift, columns := optest.Tensor(t, dtype.Float32, []int64{s.m}, .5, 2, .25), optest.Tensor(t, dtype.Float32, []int64{s.n}, 3, -40, .5), repeated([]float64{.5, .25, .125}, int(s.n))
		tiled := heldNZ(t, b, s.k, s.n)
		for _, d := range op.HalfTypes {
			var want []float64
			for i, sum := range optest.Times(a, b, int(s.k)) {
				row, column := i/int(s.n), i%int(s.n)
				want = append(want, (sum*columns[column]+optest.Values(shift)[column])*optest.Values(rows)[row])
			}
			out := optest.Tensor(t, d, []int64{s.m, s.n})
			call := optest.Args{
				"x1": optest.Tensor(t, dtype.Int8, []int64{s.m, s.k}, a...), "x2": integers(t, dtype.Int32, b, s.k, s.n), "x1Scale": rows, "x2Scale": packedScales(t, dtype.Uint64, []int64{s.n}, columns),
				"yOffset": shift, "out": out,
			}
			optest.Run(t, "QuantMatmulV5", call)
			optest.CloseTo(t, fmt.Sprint(s, d), want, optest.Values(out), optest.ResultLimit(d))
			optest.Fill(out, 0)
			optest.Run(t, "QuantMatmulWeightNz", call.With(optest.Args{"x2": tiled}))
			optest.CloseTo(t, fmt.Sprint("NZ ", s, d), want, optest.Values(out), optest.ResultLimit(d))
			for _, name := range []string{"QuantMatmulV5", "QuantMatmulWeightNz"} {
				nz := call
				if name != "QuantMatmulV5" {
					nz = call.With(optest.Args{"x2": tiled})
				}
				optest.Refused(t, op.InvalidParam, name, nz.With(optest.Args{"yOffset": nil}), "yOffset or x1Scale is null")
				optest.Refused(t, op.InvalidParam, name, nz.With(optest.Args{"yOffset": optest.Tensor(t, dtype.Float32, []int64{s.n + 1}, 1)}), "one for each column")
				optest.Refused(t, op.InvalidParam, name, nz.With(optest.Args{"bias": shift}), "yOffset instead")
				optest.Refused(t, op.InvalidParam, name, nz.With(optest.Args{"out": optest.Tensor(t, dtype.Int8, []int64{s.m, s.n})}), "dtype")
			}
		}
	}
}

// CANN multiplies int8 by int4 up to a number of rows of the weight.
func TestQuantMatmulOfManyRows(t *testing.T) {
	f := dtype.Float32
	for k, wanted := range map[int64]int32{29568: 0, 29584: op.InvalidParam} {
		v := make([]float64, k*16)
		a := optest.Args{
			"x1": optest.Tensor(t, dtype.Int8, []int64{1, k}, 1), "x2": integers(t, dtype.Int32, v, k, 16), "x1Scale": optest.Tensor(t, f, []int64{1}, 1), "x2Scale": packedScales(t, dtype.Uint64, []int64{16}, repeated([]float64{1}, 16)),
			"yOffset": optest.Tensor(t, f, []int64{16}, 3), "out": optest.Tensor(t, dtype.Float16, []int64{1, 16}),
		}
		groups := a.With(optest.Args{"x1Scale": optest.Tensor(t, f, []int64{1, 1}, 1), "x2Scale": optest.Tensor(t, dtype.Uint64, []int64{(k + 255) / 256, 16}), "groupSize": 256})
		for name, b := range map[string]optest.Args{"QuantMatmulV5": a, "QuantMatmulWeightNz": a.With(optest.Args{"x2": heldNZ(t, v, k, 16)}), "groups": groups} {
			if name == "groups" {
				name = "QuantMatmulV5"
			}
			if wanted != 0 {
				optest.Refused(t, wanted, name, b, "at most 29576")
			} else if _, err := optest.PrepareIn(t, op.Env{}, name, b); err != nil {
				t.Errorf("%s with %d rows: %v", name, k, err)
			}
		}
	}
}

// heldNZ returns a weight in FRACTAL_NZ of int32 elements, each of which holds eight of the numbers.
func heldNZ(t *testing.T, v []float64, k, n int64) *op.Tensor {
	t.Helper()
	storage := []int64{(n + 63) / 64, (k + 15) / 16, 16, 64}
	x := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{op.Count(storage) / 2}).View())
	x.DType, x.Shape, x.Strides, x.Format, x.Storage = dtype.Int4, []int64{k, n}, []int64{n, 1}, dtype.FractalNZ, storage
	optest.StoreInt4(t, x, v)
	x.DType, x.Shape, x.Strides, x.Storage = dtype.Int32, []int64{k, n / 8}, []int64{n / 8, 1}, []int64{storage[0], storage[1], 16, 8}
	return x
}

// The fused product of int4 in FRACTAL_NZ has the values of the same product in row-major order.
func TestFusedQuantMatmulOfInt4(t *testing.T) {
	const m, k, n = 3, 72, 32
	a, b := make([]float64, m*k), make([]float64, k*n)
	for i := range a {
		a[i] = float64(i*5%16 - 8)
	}
	for i := range b {
		b[i] = float64(i*7%16 - 8)
	}
	rows, columns := optest.Tensor(t, dtype.Float32, []int64{m}, .01, .002, .03), optest.Tensor(t, dtype.Float32, []int64{n}, .5, .25)
	for _, d := range op.HalfTypes {
		var want []float64
		for i, v := range optest.Times(a, b, k) {
			v *= optest.Values(rows)[i/n] * optest.Values(columns)[i%n]
			want = append(want, v*(1+math.Tanh(math.Sqrt(2/math.Pi)*(v+.044715*v*v*v)))/2)
		}
		for _, left := range []dtype.Type{dtype.Int4, dtype.Int32} {
			out := optest.Tensor(t, d, []int64{m, n})
			optest.Run(t, "FusedQuantMatmulWeightNz", optest.Args{"x1": integers(t, left, a, m, k), "x2": heldNZ(t, b, k, n), "x1Scale": rows, "x2Scale": columns, "fusedOpType": "gelu_tanh", "out": out})
			optest.CloseTo(t, fmt.Sprint(d, left), want, optest.Values(out), 2*optest.ResultLimit(d))
		}
	}
}
