package attention

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestNsaCompress(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct {
				ends         []int64
				heads        int64
				size, stride int64
			}{{[]int64{16}, 1, 16, 16}, {[]int64{40, 40, 99}, 3, 32, 16}, {[]int64{7, 100}, 2, 16, 16}, {[]int64{8}, 2, 16, 16}} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				const dim = 16
				tokens := s.ends[len(s.ends)-1]
				x, w := optest.Filled(t, 1, d, l, []int64{tokens, s.heads, dim}), optest.Filled(t, 2, d, l, []int64{s.size, s.heads})
				vx, vw := optest.Values(x), optest.Values(w)
				var want []float64
				first := int64(0)
				for _, end := range s.ends {
					for at := first; at+s.size <= end; at += s.stride {
						for h := range s.heads {
							for k := range int64(dim) {
								sum := 0.0
								for i := range s.size {
									sum += vx[((at+i)*s.heads+h)*dim+k] * vw[i*s.heads+h]
								}
								want = append(want, sum)
							}
						}
					}
					first = end
				}
				y := optest.TensorIn(t, d, l, []int64{int64(len(want)) / s.heads / dim, s.heads, dim})
				optest.Run(t, "NsaCompress", optest.Args{"input": x, "weight": w, "actSeqLenOptional": s.ends, "layoutOptional": "TND", "compressBlockSize": s.size, "compressStride": s.stride, "output": y})
				optest.CloseTo(t, what, want, optest.Values(y), 2*optest.ResultLimit(d))

				dy, dx, dw := optest.Filled(t, 3, d, l, y.Shape), optest.TensorIn(t, d, l, x.Shape), optest.TensorIn(t, d, l, w.Shape)
				vdy := optest.Values(dy)
				wantX, wantW, row := make([]float64, x.Len()), make([]float64, w.Len()), int64(0)
				first = 0
				for _, end := range s.ends {
					for at := first; at+s.size <= end; at += s.stride {
						for h := range s.heads {
							for k := range int64(dim) {
								g := vdy[(row*s.heads+h)*dim+k]
								for i := range s.size {
									wantX[((at+i)*s.heads+h)*dim+k] += g * vw[i*s.heads+h]
									wantW[i*s.heads+h] += g * vx[((at+i)*s.heads+h)*dim+k]
								}
							}
						}
						row++
					}
					first = end
				}
				grad := optest.Args{"outputGrad": dy, "input": x, "weight": w, "actSeqLenOptional": s.ends, "layoutOptional": "TND", "compressBlockSize": s.size, "compressStride": s.stride, "inputGradOut": dx, "weightGradOut": dw}
				optest.Run(t, "NsaCompressGrad", grad)
				optest.CloseTo(t, "dx of "+what, wantX, optest.Values(dx), 2*optest.ResultLimit(d))
				optest.CloseTo(t, "dw of "+what, wantW, optest.Values(dw), 2*optest.ResultLimit(d))
				optest.Refused(t, op.InvalidParam, "NsaCompressGrad", grad.With(optest.Args{"weightGradOut": dx}), "differ")
			}
		}
	}
	d := dtype.Float16
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"layoutOptional": "BSH"}, op.InvalidParam, "only TND"}, {optest.Args{"actSeqLenType": 1}, op.InvalidParam, "actSeqLenType is 1"},
		{optest.Args{"actSeqLenOptional": nil}, op.NullPointer, "actSeqLenOptional"}, {optest.Args{"actSeqLenOptional": []int64{31}}, op.InvalidParam, "does not divide"},
		{optest.Args{"compressStride": 8}, op.InvalidParam, "compressStride 8"}, {optest.Args{"weight": optest.Tensor(t, d, []int64{16, 1}, 1)}, op.InvalidParam, "a weight for each token"},
		{optest.Args{"output": optest.Tensor(t, d, []int64{1, 2, 16})}, op.InvalidParam, "a row for each block"},
	} {
		a := optest.Args{
			"input": optest.Tensor(t, d, []int64{32, 2, 16}, 1), "weight": optest.Tensor(t, d, []int64{16, 2}, 1), "actSeqLenOptional": []int64{32}, "layoutOptional": "TND",
			"compressBlockSize": 16, "compressStride": 16, "output": optest.Tensor(t, d, []int64{2, 2, 16}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "NsaCompress", a, c.text)
	}
}

func TestNsaCompressWithCache(t *testing.T) {
	const size, stride, page, heads, dim = 32, 16, 16, 2, 16
	lengths := []int64{32, 0, 48, 47, 64, 31}
	table := []float64{3, 1, 0, 0, 0, 0, 0, 0, 9, 4, 2, 0, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0} // four pages for each
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, paged := range []bool{false, true} {
			what := fmt.Sprintf("%v paged %v", d, paged)
			tokens := int64(0)
			for _, n := range lengths {
				tokens += n
			}
			shape := []int64{tokens, heads, dim}
			if paged {
				shape = []int64{10, page, heads, dim}
			}
			x, w := optest.Filled(t, 1, d, kerneltest.Contiguous, shape), optest.Filled(t, 2, d, kerneltest.Gapped, []int64{size, heads})
			cache := optest.TensorIn(t, d, kerneltest.Transposed, []int64{7, heads, dim}, 5)
			slots := []float64{6, 0, 2, 0, 1, 0}
			a := optest.Args{
				"input": x, "weight": w, "slotMapping": optest.Tensor(t, dtype.Int32, []int64{6}, slots...), "actSeqLenOptional": lengths, "layoutOptional": "TND", "compressBlockSize": size,
				"compressStride": stride, "actSeqLenType": 1, "pageBlockSize": page, "outputCache": cache,
			}
			if paged {
				a["blockTableOptional"] = optest.Tensor(t, dtype.Int32, []int64{6, 4}, table...)
			}
			want, vx, vw := optest.Values(cache), optest.Values(x), optest.Values(w)
			first := int64(0)
			for i, n := range lengths {
				if n == 32 || n == 48 || n == 64 {
					for h := range int64(heads) {
						for k := range int64(dim) {
							sum := 0.0
							for j := range int64(size) {
								token := n - size + j
								row := first + token
								if paged {
									row = int64(table[int64(i)*4+token/page])*page + token%page
								}
								sum += vx[(row*heads+h)*dim+k] * vw[j*heads+h]
							}
							want[(int64(slots[i])*heads+h)*dim+k] = sum
						}
					}
				}
				first += n
			}
			optest.Run(t, "NsaCompressWithCache", a)
			optest.CloseTo(t, what, want, optest.Values(cache), 2*optest.ResultLimit(d))
			many := a.With(optest.Args{"slotMapping": optest.Tensor(t, dtype.Int32, []int64{6}, 7)})
			assert.ErrorContains(t, optest.Execute(t, "NsaCompressWithCache", many), "slotMapping 7 of sequence 0")
			for text, set := range map[string]optest.Args{
				"actSeqLenType is 0": {"actSeqLenType": 0}, "compressStride 8": {"compressStride": 8}, "a weight for each token": {"weight": optest.Tensor(t, d, []int64{16, heads}, 1)},
				"a place for each sequence": {"slotMapping": optest.Tensor(t, dtype.Int32, []int64{3}, 0)}, "rows like the tokens": {"outputCache": optest.Tensor(t, d, []int64{7, heads, 32}, 0)},
			} {
				optest.Refused(t, op.InvalidParam, "NsaCompressWithCache", a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, "NsaCompressWithCache", a.With(optest.Args{"actSeqLenOptional": nil}), "actSeqLenOptional is null")
			if paged {
				optest.Refused(t, op.InvalidParam, "NsaCompressWithCache", a.With(optest.Args{"pageBlockSize": 32}), "pageBlockSize is 32")
				far := a.With(optest.Args{"blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{6, 4}, 10)})
				assert.ErrorContains(t, optest.Execute(t, "NsaCompressWithCache", far), "page 10 for token 0")
			} else {
				optest.Refused(t, op.InvalidParam, "NsaCompressWithCache", a.With(optest.Args{"layoutOptional": "BSH"}), "only TND")
				optest.Refused(t, op.InvalidParam, "NsaCompressWithCache", a.With(optest.Args{"actSeqLenOptional": []int64{32, 0, 48, 47, 64, 32}}), "has 223 tokens")
			}
		}
	}
}
