package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestDequantSwigluQuant(t *testing.T) {
	const rows, half = 5, 3
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int32} {
		for _, counts := range [][]float64{nil, {2, 3}, {0, 4}} {
			parts, used := 1, rows
			group := make([]int, rows)
			var groups *op.Tensor
			if counts != nil {
				parts, used = len(counts), 0
				groups = optest.Tensor(t, dtype.Int64, []int64{int64(parts)}, counts...)
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
				x, y, extent := optest.Numbers(t, d, kerneltest.Contiguous, rows, 2*half), optest.Tensor(t, dtype.Int8, []int64{rows, half}, 99), optest.Tensor(t, f, []int64{rows}, -1)
				a := optest.Args{"x": x, "groupIndexOptional": groups, "quantModeOptional": "dynamic", "yOut": y, "scaleOut": extent}
				number := optest.Values(x)
				if d == dtype.Int32 {
					columns, lines := optest.Tensor(t, f, wide, 0.5, 0.125, 0.25, 0.75, 0.0625), optest.Tensor(t, f, []int64{rows}, 0.5, 2, 0.25)
					a["weightScaleOptional"], a["activationScaleOptional"] = columns, lines
					var bias []float64
					if biasType != dtype.Undefined {
						b := optest.Tensor(t, biasType, wide, 1, -2, 3, 0, 5)
						a["biasOptional"], bias = b, optest.Values(b)
					}
					for i := range number {
						r, k := i/(2*half), group[i/(2*half)]*2*half+i%(2*half)
						if biasType == dtype.Int32 {
							number[i] += bias[k]
						}
						number[i] *= optest.Values(columns)[k] * optest.Values(lines)[r]
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
						call := a.With(optest.Args{"activateLeft": left})
						name := "DequantSwigluQuant"
						if mode != 0 {
							name = "DequantSwigluQuantV2"
							call = call.With(optest.Args{"dstType": dtype.Int8, "activateDim": 1, "swigluMode": mode, "clampLimit": limit, "gluAlpha": alpha, "gluBias": float64(shift)})
						}
						smooth := optest.Tensor(t, f, narrow, 0.5, 1, 2, 0.25)
						for _, s := range []*op.Tensor{nil, smooth} {
							optest.Fill(y, 99)
							optest.Run(t, name, call.With(optest.Args{"quantScaleOptional": s}))
							part := make([]float64, used*half)
							for i := range part {
								part[i] = act[i]
								if s != nil {
									part[i] *= optest.Values(s)[group[i/half]*half+i%half]
								}
							}
							optest.Extremes(t, what, part, nil, optest.Values(y)[:used*half], optest.Values(extent)[:used])
							for _, v := range optest.Values(y)[used*half:] {
								assert.Equal(t, 99.0, v, what) // rows outside all groups are left unchanged
							}
						}
						if mode != 0 {
							continue
						}
						scale, offset := optest.Tensor(t, f, []int64{int64(parts)}, 0.05, 0.2), optest.Tensor(t, f, []int64{int64(parts)}, 3, -4)
						static := call.With(optest.Args{"quantModeOptional": nil, "quantScaleOptional": scale, "quantOffsetOptional": offset})
						optest.Run(t, name, static)
						for i, q := range optest.Values(y)[:used*half] {
							g := group[i/half]
							assert.InDelta(t, min(max(act[i]/optest.Values(scale)[g]+optest.Values(offset)[g], -128), 127), q, 0.52, what)
						}
						optest.Refused(t, op.NullPointer, name, static.With(optest.Args{"quantOffsetOptional": nil}), "needs both")
						optest.Refused(t, op.InvalidParam, name, call.With(optest.Args{"quantOffsetOptional": offset}), "no offsets")
						optest.Refused(t, op.InvalidParam, name, call.With(optest.Args{"quantModeOptional": "dynamic_msd"}), "dynamic_msd")
						optest.Refused(t, op.InvalidParam, name, call.With(optest.Args{"scaleOut": optest.Tensor(t, f, []int64{1})}), "one for each row")
						if d == dtype.Int32 {
							optest.Refused(t, op.NullPointer, name, call.With(optest.Args{"weightScaleOptional": nil}), "int32 sums need it")
						} else {
							optest.Refused(t, op.InvalidParam, name, call.With(optest.Args{"weightScaleOptional": scale}), "for int32 sums")
						}
					}
				}
				newer := a.With(optest.Args{"dstType": dtype.Int8, "activateDim": -1, "activateLeft": true})
				optest.Run(t, "DequantSwigluQuantV2", newer)
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"dstType": dtype.Int4}), "dstType")
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"swigluMode": 4}), "swigluMode is 4")
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"swigluMode": 1}), "clampLimit is 0")
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"swigluMode": 1, "clampLimit": 1.0, "activateLeft": false}), "activateLeft must be true")
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"activateDim": 0}), "activateDim is 0")
				optest.Refused(t, op.InvalidParam, "DequantSwigluQuantV2", newer.With(optest.Args{"roundModeOptional": "floor"}), "roundModeOptional")
				many := newer.With(optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int64, []int64{int64(parts)}, 9)})
				assert.ErrorContains(t, optest.Execute(t, "DequantSwigluQuantV2", many), "must not be negative")
			}
		}
	}
}
