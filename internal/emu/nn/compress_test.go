package nn

import (
	"fmt"
	"testing"

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
