package aclnn

import "slices"

// formatRanks are the numbers of dimensions that a format describes. Some operators take images
// without the batch as NCHW.
var formatRanks = map[Format][]int{NCL: {3}, NCHW: {3, 4}, NHWC: {3, 4}, NCDHW: {4, 5}, NDHWC: {4, 5}}

// As describes the same memory in another row-major format: ND, NCL, NCHW, NHWC, NCDHW or NDHWC.
// It moves nothing: NHWC says that the last of the dimensions in Shape counts channels. A view that
// changes the number of dimensions is in ND again. AsNZ and AsND are for FRACTAL_NZ.
func (t *Tensor) As(f Format) *Tensor {
	v := t.view()
	ranks, known := formatRanks[f]
	switch {
	case v.err != nil:
	case f != ND && !known:
		v.fail("%v cannot be described as %v; use ND, NCL, NCHW, NHWC, NCDHW or NDHWC", t, f)
	case v.tiled():
		v.fail("%v cannot be described as %v: its storage is tiled; cast it to ND first", t, f)
	case known && !slices.Contains(ranks, v.Rank()):
		v.fail("%v has %d dimensions; %v has %v", t, v.Rank(), f, ranks)
	default:
		v.desc.Format = int16(f)
	}
	return &v
}

// tiled reports whether the storage is not row-major.
func (t *Tensor) tiled() bool {
	_, known := formatRanks[t.Format()]
	return t.Format() != ND && !known
}

// unnamed makes the format ND when the meaning of the dimensions is lost.
func (t *Tensor) unnamed() {
	if !t.tiled() {
		t.desc.Format = int16(ND)
	}
}
