package recurrent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestRecurrentBackward runs a network forward in training mode, and compares the gradients with
// difference quotients of the definition.
func TestRecurrentBackward(t *testing.T) {
	for _, d := range recurrentTypes {
		for _, lstm := range []bool{true, false} {
			for i, s := range []struct{ layers, directions, times, batch, width, size int }{{1, 1, 1, 1, 2, 2}, {2, 2, 3, 2, 4, 3}, {1, 2, 4, 1, 1, 2}, {2, 1, 3, 3, 2, 1}} {
				biased, batchFirst, started := i%2 == 0, i >= 2, i != 0
				what := fmt.Sprintf("%v lstm %v %+v biased %v batchFirst %v", d, lstm, s, biased, batchFirst)
				kinds, forward := 3, "GRU"
				if lstm {
					kinds, forward = 4, "LSTM"
				}
				shape := func(last int) []int64 {
					if batchFirst {
						return []int64{int64(s.batch), int64(s.times), int64(last)}
					}
					return []int64{int64(s.times), int64(s.batch), int64(last)}
				}
				all := []int64{int64(s.layers * s.directions), int64(s.batch), int64(s.size)}
				x := optest.Filled(t, 1, d, kerneltest.Gapped, shape(s.width))
				var params, dparams []*op.Tensor
				in := s.width
				for k := range s.layers * s.directions {
					if k == s.directions {
						in = s.directions * s.size
					}
					shapes := [][]int64{{int64(kinds * s.size), int64(in)}, {int64(kinds * s.size), int64(s.size)}}
					if biased {
						shapes = append(shapes, []int64{int64(kinds * s.size)}, []int64{int64(kinds * s.size)})
					}
					for i, shape := range shapes {
						params = append(params, optest.Filled(t, uint64(10*k+i+2), d, kerneltest.Contiguous, shape))
						dparams = append(dparams, optest.TensorIn(t, d, kerneltest.Layouts[i], shape))
					}
				}
				h0, c0 := optest.Filled(t, 90, d, kerneltest.Contiguous, all), optest.Filled(t, 91, d, kerneltest.Contiguous, all)
				if !started {
					h0, c0 = optest.Tensor(t, d, all, 0), optest.Tensor(t, d, all, 0)
				}
				dy, dh, dc := optest.Filled(t, 92, d, kerneltest.Transposed, shape(s.directions*s.size)), optest.Filled(t, 93, d, kerneltest.Contiguous, all), optest.Filled(t, 94, d, kerneltest.Contiguous, all)
				dx, dh0, dc0 := optest.TensorIn(t, d, kerneltest.Transposed, shape(s.width)), optest.Tensor(t, d, all), optest.Tensor(t, d, all)

				train := optest.Args{"input": x, "params": params, "hasBias": biased, "numLayers": s.layers, "batchFirst": batchFirst, "output": optest.Tensor(t, d, shape(s.directions*s.size)), "hy": optest.Tensor(t, d, all), "train": true}
				back := optest.Args{"input": x, "params": params, "hasBias": biased, "numLayers": s.layers, "batchFirst": batchFirst, "dy": dy, "dh": dh, "dxOut": dx, "dhPrevOut": dh0, "dparamsOut": dparams}
				name, lists := "GRUBackward", [][2]string{{"rOut", "r"}, {"zOut", "z"}, {"nOut", "n"}, {"hnOut", "hn"}, {"hOut", "h"}}
				if lstm {
					name, lists = "LstmBackward", [][2]string{{"iOut", "i"}, {"jOut", "g"}, {"fOut", "f"}, {"oOut", "o"}, {"hOut", "h"}, {"cOut", "c"}, {"tanhCOut", "tanhc"}}
					train["cy"], train["bidirectional"] = optest.Tensor(t, d, all), s.directions == 2
					back["dc"], back["dcPrevOut"], back["bidirectional"] = dc, dc0, s.directions == 2
				} else {
					train["bidirection"], back["bidirection"] = s.directions == 2, s.directions == 2
				}
				switch {
				case started && lstm:
					train["hx"], back["hx"] = []*op.Tensor{h0, c0}, []*op.Tensor{h0, c0}
				case started:
					train["hx"], back["hx"] = h0, h0
				}
				for _, l := range lists {
					var records []*op.Tensor
					for range s.layers * s.directions {
						records = append(records, optest.Tensor(t, d, []int64{int64(s.times), int64(s.batch), int64(s.size)}))
					}
					train[l[0]], back[l[1]] = records, records
				}
				optest.Run(t, forward, train)
				optest.Run(t, name, back)

				// The loss is the inner product of the outputs with their incoming gradients.
				xs, hs, cs, gy, gh, gc := optest.Values(x), optest.Values(h0), optest.Values(c0), optest.Values(dy), optest.Values(dh), optest.Values(dc)
				var ps [][]float64
				for _, p := range params {
					ps = append(ps, optest.Values(p))
				}
				each := len(ps) / (s.layers * s.directions)
				at := func(time, b, last int) int {
					if batchFirst {
						return (b*s.times + time) * last
					}
					return (time*s.batch + b) * last
				}
				loss := func() (sum float64) {
					for b := range s.batch {
						seq := make([][]float64, s.times)
						for time := range seq {
							seq[time] = xs[at(time, b, s.width):][:s.width]
						}
						for layer := range s.layers {
							next := make([][]float64, s.times)
							for dir := range s.directions {
								k := layer*s.directions + dir
								place := (k*s.batch + b) * s.size
								states, cell := layerDefinition(lstm, dir == 1, ps[k*each:][:each], seq, hs[place:][:s.size], cs[place:][:s.size])
								last := states[s.times-1]
								if dir == 1 {
									last = states[0]
								}
								for i := range s.size {
									sum += gh[place+i] * last[i]
									if lstm {
										sum += gc[place+i] * cell[i]
									}
								}
								for time := range next {
									next[time] = append(next[time], states[time]...)
								}
							}
							seq = next
						}
						for time := range seq {
							for i, v := range seq[time] {
								sum += gy[at(time, b, len(seq[time]))+i] * v
							}
						}
					}
					return sum
				}
				limit := map[dtype.Type]float64{dtype.Float32: 2e-5, dtype.Float16: 2e-2}[d]
				optest.CloseTo(t, "x of "+what, gradientsOf(xs, loss), optest.Values(dx), limit)
				optest.CloseTo(t, "h of "+what, gradientsOf(hs, loss), optest.Values(dh0), limit)
				if lstm {
					optest.CloseTo(t, "c of "+what, gradientsOf(cs, loss), optest.Values(dc0), limit)
				}
				for i := range ps {
					optest.CloseTo(t, fmt.Sprintf("parameter %d of %s", i, what), gradientsOf(ps[i], loss), optest.Values(dparams[i]), limit)
				}
				optest.Refused(t, op.InvalidParam, name, back.With(optest.Args{"dparamsOut": dparams[1:]}), "dparamsOut has")
				optest.Refused(t, op.InvalidParam, name, back.With(optest.Args{"h": []*op.Tensor{}}), "h has 0 tensors")
				optest.Refused(t, op.InvalidParam, name, back.With(optest.Args{"dhPrevOut": optest.Tensor(t, d, []int64{1, 1, 9})}), "differ")
				optest.Refused(t, op.NullPointer, name, back.With(optest.Args{"dy": nil}), "dy is null")
			}
		}
	}
	// Without time steps the gradients of the parameters are zero.
	f := dtype.Float32
	empty := []*op.Tensor{optest.Tensor(t, f, []int64{0, 1, 2})}
	state, dweights := optest.Tensor(t, f, []int64{1, 1, 2}, 1), []*op.Tensor{optest.Tensor(t, f, []int64{6, 3}, 7), optest.Tensor(t, f, []int64{6, 2}, 7)}
	optest.Run(t, "GRUBackward", optest.Args{
		"input": optest.Tensor(t, f, []int64{0, 1, 3}), "params": []*op.Tensor{optest.Tensor(t, f, []int64{6, 3}, 1), optest.Tensor(t, f, []int64{6, 2}, 1)}, "numLayers": 1, "dy": empty[0],
		"dh": state, "r": empty, "z": empty, "n": empty, "hn": empty, "h": empty, "dxOut": optest.Tensor(t, f, []int64{0, 1, 3}), "dhPrevOut": optest.Tensor(t, f, []int64{1, 1, 2}), "dparamsOut": dweights,
	})
	optest.CloseTo(t, "weights of nothing", slices.Repeat([]float64{0}, 18), optest.Values(dweights[0]), 0)
}
