package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestDequantSwigluQuant(t *testing.T) {
	const rows, half = 5, 3
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int32} {
		for _, counts := range [][]float64{nil, {2, 3}, {0, 4}} {
			parts, used := 1, rows
			group := make([]int, rows)
			var groups *Tensor
			if counts != nil {
				parts, used = len(counts), 0
				groups = tensor(t, dtype.Int64, []int64{int64(parts)}, counts...)
				for g, n := range counts {
					for range int(n) {
						group[used] = g
						used++
					}
				}
			}
			wide, narrow := []int64{int64(parts), 2 * half}, []int64{int64(parts), half}
			for _, biasType := range []dtype.Type{dtype.Undefined, dtype.Int32, dtype.Float16, f} {
				if d != dtype.Int32 && biasType != dtype.Undefined {
					continue
				}
				x, y, extent := numbers(t, d, kerneltest.Contiguous, rows, 2*half), tensor(t, dtype.Int8, []int64{rows, half}, 99), tensor(t, f, []int64{rows}, -1)
				a := args{"x": x, "groupIndexOptional": groups, "quantModeOptional": "dynamic", "yOut": y, "scaleOut": extent}
				number := values(x)
				if d == dtype.Int32 {
					columns, lines := tensor(t, f, wide, 0.5, 0.125, 0.25, 0.75, 0.0625), tensor(t, f, []int64{rows}, 0.5, 2, 0.25)
					a["weightScaleOptional"], a["activationScaleOptional"] = columns, lines
					var bias []float64
					if biasType != dtype.Undefined {
						b := tensor(t, biasType, wide, 1, -2, 3, 0, 5)
						a["biasOptional"], bias = b, values(b)
					}
					for i := range number {
						r, k := i/(2*half), group[i/(2*half)]*2*half+i%(2*half)
						if biasType == dtype.Int32 {
							number[i] += bias[k]
						}
						number[i] *= values(columns)[k] * values(lines)[r]
						if bias != nil && biasType != dtype.Int32 {
							number[i] += bias[k]
						}
					}
				}
				for mode := range 3 {
					for _, left := range []bool{true, false} {
						if mode == 1 && !left {
							continue
						}
						what := fmt.Sprintf("%v counts %v bias %v mode %d left %v", d, counts, biasType, mode, left)
						const alpha, limit, shift = 1.7, 2.5, 1
						var act []float64
						for r := range rows {
							for k := range half {
								p, q := number[r*2*half+k], number[r*2*half+half+k]
								if mode == 1 {
									p, q = number[r*2*half+2*k], number[r*2*half+2*k+1]
								}
								switch {
								case mode != 0:
									p, q = min(p, limit), max(min(q, limit), -limit)
									act = append(act, p/(1+math.Exp(-alpha*p))*(q+shift))
									continue
								case !left:
									p, q = q, p
								}
								act = append(act, p/(1+math.Exp(-p))*q)
							}
						}
						call := a.with(args{"activateLeft": left})
						name := "DequantSwigluQuant"
						if mode != 0 {
							name = "DequantSwigluQuantV2"
							call = call.with(args{"dstType": dtype.Int8, "activateDim": 1, "swigluMode": mode, "clampLimit": limit, "gluAlpha": alpha, "gluBias": float64(shift)})
						}
						smooth := tensor(t, f, narrow, 0.5, 1, 2, 0.25)
						for _, s := range []*Tensor{nil, smooth} {
							fill(y, 99)
							run(t, name, call.with(args{"quantScaleOptional": s}))
							part := make([]float64, used*half)
							for i := range part {
								part[i] = act[i]
								if s != nil {
									part[i] *= values(s)[group[i/half]*half+i%half]
								}
							}
							extremes(t, what, part, nil, values(y)[:used*half], values(extent)[:used])
							for _, v := range values(y)[used*half:] {
								assert.Equal(t, 99.0, v, what) // rows of no group are left alone
							}
						}
						if mode != 0 {
							continue
						}
						scale, offset := tensor(t, f, []int64{int64(parts)}, 0.05, 0.2), tensor(t, f, []int64{int64(parts)}, 3, -4)
						static := call.with(args{"quantModeOptional": nil, "quantScaleOptional": scale, "quantOffsetOptional": offset})
						run(t, name, static)
						for i, q := range values(y)[:used*half] {
							g := group[i/half]
							assert.InDelta(t, min(max(act[i]/values(scale)[g]+values(offset)[g], -128), 127), q, 0.52, what)
						}
						refused(t, nullPointer, name, static.with(args{"quantOffsetOptional": nil}), "needs both")
						refused(t, invalidParam, name, call.with(args{"quantOffsetOptional": offset}), "no offsets")
						refused(t, invalidParam, name, call.with(args{"quantModeOptional": "dynamic_msd"}), "dynamic_msd")
						refused(t, invalidParam, name, call.with(args{"scaleOut": tensor(t, f, []int64{1})}), "one for each row")
						if d == dtype.Int32 {
							refused(t, nullPointer, name, call.with(args{"weightScaleOptional": nil}), "int32 sums need it")
						} else {
							refused(t, invalidParam, name, call.with(args{"weightScaleOptional": scale}), "for int32 sums")
						}
					}
				}
				newer := a.with(args{"dstType": dtype.Int8, "activateDim": -1, "activateLeft": true})
				run(t, "DequantSwigluQuantV2", newer)
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"dstType": dtype.Int4}), "dstType")
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"swigluMode": 4}), "swigluMode is 4")
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"swigluMode": 1}), "clampLimit is 0")
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"swigluMode": 1, "clampLimit": 1.0, "activateLeft": false}), "activateLeft must be true")
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"activateDim": 0}), "activateDim is 0")
				refused(t, invalidParam, "DequantSwigluQuantV2", newer.with(args{"roundModeOptional": "floor"}), "roundModeOptional")
				many := newer.with(args{"groupIndexOptional": tensor(t, dtype.Int64, []int64{int64(parts)}, 9)})
				assert.ErrorContains(t, execute(t, "DequantSwigluQuantV2", many), "must not be negative")
			}
		}
	}
}
