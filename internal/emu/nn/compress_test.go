package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
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
				x, w := filled(t, 1, d, l, []int64{tokens, s.heads, dim}), filled(t, 2, d, l, []int64{s.size, s.heads})
				vx, vw := values(x), values(w)
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
				y := tensorIn(t, d, l, []int64{int64(len(want)) / s.heads / dim, s.heads, dim})
				run(t, "NsaCompress", args{"input": x, "weight": w, "actSeqLenOptional": s.ends, "layoutOptional": "TND", "compressBlockSize": s.size, "compressStride": s.stride, "output": y})
				closeTo(t, what, want, values(y), 2*resultLimit(d))

				dy, dx, dw := filled(t, 3, d, l, y.Shape), tensorIn(t, d, l, x.Shape), tensorIn(t, d, l, w.Shape)
				vdy := values(dy)
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
				grad := args{"outputGrad": dy, "input": x, "weight": w, "actSeqLenOptional": s.ends, "layoutOptional": "TND", "compressBlockSize": s.size, "compressStride": s.stride, "inputGradOut": dx, "weightGradOut": dw}
				run(t, "NsaCompressGrad", grad)
				closeTo(t, "dx of "+what, wantX, values(dx), 2*resultLimit(d))
				closeTo(t, "dw of "+what, wantW, values(dw), 2*resultLimit(d))
				refused(t, invalidParam, "NsaCompressGrad", grad.with(args{"weightGradOut": dx}), "differ")
			}
		}
	}
	d := dtype.Float16
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"layoutOptional": "BSH"}, invalidParam, "only TND"}, {args{"actSeqLenType": 1}, invalidParam, "actSeqLenType is 1"},
		{args{"actSeqLenOptional": nil}, nullPointer, "actSeqLenOptional"}, {args{"actSeqLenOptional": []int64{31}}, invalidParam, "does not divide"},
		{args{"compressStride": 8}, invalidParam, "compressStride 8"}, {args{"weight": tensor(t, d, []int64{16, 1}, 1)}, invalidParam, "a weight for each token"},
		{args{"output": tensor(t, d, []int64{1, 2, 16})}, invalidParam, "a row for each block"},
	} {
		a := args{
			"input": tensor(t, d, []int64{32, 2, 16}, 1), "weight": tensor(t, d, []int64{16, 2}, 1), "actSeqLenOptional": []int64{32}, "layoutOptional": "TND",
			"compressBlockSize": 16, "compressStride": 16, "output": tensor(t, d, []int64{2, 2, 16}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "NsaCompress", a, c.text)
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
			x, w := filled(t, 1, d, kerneltest.Contiguous, shape), filled(t, 2, d, kerneltest.Gapped, []int64{size, heads})
			cache := tensorIn(t, d, kerneltest.Transposed, []int64{7, heads, dim}, 5)
			slots := []float64{6, 0, 2, 0, 1, 0}
			a := args{
				"input": x, "weight": w, "slotMapping": tensor(t, dtype.Int32, []int64{6}, slots...), "actSeqLenOptional": lengths, "layoutOptional": "TND", "compressBlockSize": size,
				"compressStride": stride, "actSeqLenType": 1, "pageBlockSize": page, "outputCache": cache,
			}
			if paged {
				a["blockTableOptional"] = tensor(t, dtype.Int32, []int64{6, 4}, table...)
			}
			want, vx, vw := values(cache), values(x), values(w)
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
			run(t, "NsaCompressWithCache", a)
			closeTo(t, what, want, values(cache), 2*resultLimit(d))
			many := a.with(args{"slotMapping": tensor(t, dtype.Int32, []int64{6}, 7)})
			assert.ErrorContains(t, execute(t, "NsaCompressWithCache", many), "slotMapping 7 of sequence 0")
			for text, set := range map[string]args{
				"actSeqLenType is 0": {"actSeqLenType": 0}, "compressStride 8": {"compressStride": 8}, "a weight for each token": {"weight": tensor(t, d, []int64{16, heads}, 1)},
				"a place for each sequence": {"slotMapping": tensor(t, dtype.Int32, []int64{3}, 0)}, "rows like the tokens": {"outputCache": tensor(t, d, []int64{7, heads, 32}, 0)},
			} {
				refused(t, invalidParam, "NsaCompressWithCache", a.with(set), text)
			}
			refused(t, nullPointer, "NsaCompressWithCache", a.with(args{"actSeqLenOptional": nil}), "actSeqLenOptional is null")
			if paged {
				refused(t, invalidParam, "NsaCompressWithCache", a.with(args{"pageBlockSize": 32}), "pageBlockSize is 32")
				far := a.with(args{"blockTableOptional": tensor(t, dtype.Int32, []int64{6, 4}, 10)})
				assert.ErrorContains(t, execute(t, "NsaCompressWithCache", far), "page 10 for token 0")
			} else {
				refused(t, invalidParam, "NsaCompressWithCache", a.with(args{"layoutOptional": "BSH"}), "only TND")
				refused(t, invalidParam, "NsaCompressWithCache", a.with(args{"actSeqLenOptional": []int64{32, 0, 48, 47, 64, 32}}), "has 223 tokens")
			}
		}
	}
}
