package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestAttentionUpdate compares with the definition in float64, for each type, odd numbers of rows and parts, strides, and
// parts that saw no key.
func TestAttentionUpdate(t *testing.T) {
	f := dtype.Float32
	for _, dt := range []dtype.Type{f, dtype.Float16, dtype.BFloat16} {
		for _, size := range []struct{ parts, rows, width int64 }{{1, 1, 8}, {2, 3, 16}, {3, 7, 24}, {5, 1, 40}, {2, 33, 128}, {7, 5, 512}} {
			for _, layout := range kerneltest.Layouts {
				for _, both := range []bool{false, true} {
					var sums, parts []*op.Tensor
					var lse, local [][]float64
					for i := range size.parts {
						l := optest.Normal(uint64(31*i+1), f, size.rows)
						for r := range l {
							l[r] *= 6
							if i > 0 && (int64(r)+i)%4 == 0 {
								l[r] = math.Inf(1) // no key
							}
						}
						sums = append(sums, optest.Tensor(t, f, []int64{size.rows}, l...))
						parts = append(parts, optest.Filled(t, uint64(17*i+2), dt, layout, []int64{size.rows, size.width}))
					}
					for i := range sums {
						lse, local = append(lse, optest.Values(sums[i])), append(local, optest.Values(parts[i]))
					}
					out, total := optest.TensorIn(t, dt, layout, []int64{size.rows, size.width}), optest.Tensor(t, f, []int64{size.rows})
					a := optest.Args{"lse": sums, "localOut": parts, "out": out}
					if both {
						a["updateType"], a["lseOut"] = 1, total
					}
					optest.Run(t, "AttentionUpdate", a)
					wantTotal, want := make([]float64, size.rows), make([]float64, size.rows*size.width)
					for r := range wantTotal {
						for i := range sums {
							if l := lse[i][r]; !math.IsInf(l, 1) {
								wantTotal[r] += math.Exp(l)
							}
						}
						wantTotal[r] = math.Log(wantTotal[r])
						for i := range sums {
							if l := lse[i][r]; !math.IsInf(l, 1) {
								for k := range int(size.width) {
									want[r*int(size.width)+k] += local[i][r*int(size.width)+k] * math.Exp(l-wantTotal[r])
								}
							}
						}
					}
					what := fmt.Sprint(dt, size, layout, both)
					optest.CloseTo(t, what, want, optest.Values(out), 2*optest.ResultLimit(dt))
					if both {
						optest.CloseTo(t, "lseOut "+what, wantTotal, optest.Values(total), 1e-5)
					}
				}
			}
		}
	}
}

func TestAttentionUpdateRefuses(t *testing.T) {
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float32
	a := optest.Args{"lse": []*op.Tensor{x(f, 3), x(f, 3)}, "localOut": []*op.Tensor{x(f, 3, 16), x(f, 3, 16)}, "out": x(f, 3, 16)}
	for text, set := range map[string]optest.Args{
		"lse has 1 tensors and localOut 2": {"lse": []*op.Tensor{x(f, 3)}},
		"lse has 129 tensors":              {"lse": make([]*op.Tensor, 129), "localOut": make([]*op.Tensor, 129)},
		"updateType is 2":                  {"updateType": 2},
		"must be given with 1":             {"updateType": 1},
		"and null with 0":                  {"lseOut": x(f, 3)},
		"the rows of localOut":             {"lse": []*op.Tensor{x(f, 4), x(f, 4)}},
		"multiple of 8 up to 512":          {"localOut": []*op.Tensor{x(f, 3, 12), x(f, 3, 12)}, "out": x(f, 3, 12)},
		"dtype":                            {"lse": []*op.Tensor{x(dtype.Float16, 3), x(dtype.Float16, 3)}},
	} {
		if text == "lse has 129 tensors" {
			for _, name := range []string{"lse", "localOut"} {
				for i := range 129 {
					set[name].([]*op.Tensor)[i] = a[name].([]*op.Tensor)[0]
				}
			}
		}
		optest.Refused(t, op.InvalidParam, "AttentionUpdate", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "AttentionUpdate", a.With(optest.Args{"out": nil}), "out is null")
	optest.Refused(t, op.NullPointer, "AttentionUpdate", a.With(optest.Args{"lse": nil}), "lse is null")
	many := make([]*op.Tensor, 17)
	wide := make([]*op.Tensor, 17)
	for i := range many {
		many[i], wide[i] = x(f, 3), x(f, 3, 16)
	}
	optest.RunOn(t, acceptance.Ascend910B, "AttentionUpdate", a.With(optest.Args{"lse": many, "localOut": wide}))
}
