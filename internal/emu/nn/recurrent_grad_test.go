package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestRecurrentBackward trains a network forward, and compares the gradient with differences
// of the definition.
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
				x := filled(t, 1, d, kerneltest.Gapped, shape(s.width))
				var params, dparams []*Tensor
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
						params = append(params, filled(t, uint64(10*k+i+2), d, kerneltest.Contiguous, shape))
						dparams = append(dparams, tensorIn(t, d, kerneltest.Layouts[i], shape))
					}
				}
				h0, c0 := filled(t, 90, d, kerneltest.Contiguous, all), filled(t, 91, d, kerneltest.Contiguous, all)
				if !started {
					h0, c0 = tensor(t, d, all, 0), tensor(t, d, all, 0)
				}
				dy, dh, dc := filled(t, 92, d, kerneltest.Transposed, shape(s.directions*s.size)), filled(t, 93, d, kerneltest.Contiguous, all), filled(t, 94, d, kerneltest.Contiguous, all)
				dx, dh0, dc0 := tensorIn(t, d, kerneltest.Transposed, shape(s.width)), tensor(t, d, all), tensor(t, d, all)

				train := args{"input": x, "params": params, "hasBias": biased, "numLayers": s.layers, "batchFirst": batchFirst, "output": tensor(t, d, shape(s.directions*s.size)), "hy": tensor(t, d, all), "train": true}
				back := args{"input": x, "params": params, "hasBias": biased, "numLayers": s.layers, "batchFirst": batchFirst, "dy": dy, "dh": dh, "dxOut": dx, "dhPrevOut": dh0, "dparamsOut": dparams}
				name, lists := "GRUBackward", [][2]string{{"rOut", "r"}, {"zOut", "z"}, {"nOut", "n"}, {"hnOut", "hn"}, {"hOut", "h"}}
				if lstm {
					name, lists = "LstmBackward", [][2]string{{"iOut", "i"}, {"jOut", "g"}, {"fOut", "f"}, {"oOut", "o"}, {"hOut", "h"}, {"cOut", "c"}, {"tanhCOut", "tanhc"}}
					train["cy"], train["bidirectional"] = tensor(t, d, all), s.directions == 2
					back["dc"], back["dcPrevOut"], back["bidirectional"] = dc, dc0, s.directions == 2
				} else {
					train["bidirection"], back["bidirection"] = s.directions == 2, s.directions == 2
				}
				switch {
				case started && lstm:
					train["hx"], back["hx"] = []*Tensor{h0, c0}, []*Tensor{h0, c0}
				case started:
					train["hx"], back["hx"] = h0, h0
				}
				for _, l := range lists {
					var records []*Tensor
					for range s.layers * s.directions {
						records = append(records, tensor(t, d, []int64{int64(s.times), int64(s.batch), int64(s.size)}))
					}
					train[l[0]], back[l[1]] = records, records
				}
				run(t, forward, train)
				run(t, name, back)

				// The loss is the product of what comes out with its gradient.
				xs, hs, cs, gy, gh, gc := values(x), values(h0), values(c0), values(dy), values(dh), values(dc)
				var ps [][]float64
				for _, p := range params {
					ps = append(ps, values(p))
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
				closeTo(t, "x of "+what, gradientsOf(xs, loss), values(dx), limit)
				closeTo(t, "h of "+what, gradientsOf(hs, loss), values(dh0), limit)
				if lstm {
					closeTo(t, "c of "+what, gradientsOf(cs, loss), values(dc0), limit)
				}
				for i := range ps {
					closeTo(t, fmt.Sprintf("parameter %d of %s", i, what), gradientsOf(ps[i], loss), values(dparams[i]), limit)
				}
				refused(t, invalidParam, name, back.with(args{"dparamsOut": dparams[1:]}), "dparamsOut has")
				refused(t, invalidParam, name, back.with(args{"h": []*Tensor{}}), "h has 0 tensors")
				refused(t, invalidParam, name, back.with(args{"dhPrevOut": tensor(t, d, []int64{1, 1, 9})}), "differ")
				refused(t, nullPointer, name, back.with(args{"dy": nil}), "dy is null")
			}
		}
	}
	// Without times there is nothing to learn.
	f := dtype.Float32
	empty := []*Tensor{tensor(t, f, []int64{0, 1, 2})}
	state, dweights := tensor(t, f, []int64{1, 1, 2}, 1), []*Tensor{tensor(t, f, []int64{6, 3}, 7), tensor(t, f, []int64{6, 2}, 7)}
	run(t, "GRUBackward", args{
		"input": tensor(t, f, []int64{0, 1, 3}), "params": []*Tensor{tensor(t, f, []int64{6, 3}, 1), tensor(t, f, []int64{6, 2}, 1)}, "numLayers": 1, "dy": empty[0],
		"dh": state, "r": empty, "z": empty, "n": empty, "hn": empty, "h": empty, "dxOut": tensor(t, f, []int64{0, 1, 3}), "dhPrevOut": tensor(t, f, []int64{1, 1, 2}), "dparamsOut": dweights,
	})
	closeTo(t, "weights of nothing", slices.Repeat([]float64{0}, 18), values(dweights[0]), 0)
}
