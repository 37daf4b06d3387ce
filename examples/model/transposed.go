package model

import "github.com/goascend/cann/aclnn"

// Shards keep a transposed weight as [experts, in, out], the order in which the products of the forward pass
// read it. What leaves them has [experts, out, in], as hub folders have it: checkpoints, exports, and Get.

// kept returns the shape of this rank's part as shards keep it.
func (p *Parameter) kept() []int64 {
	shape := p.local()
	if p.transposed {
		shape[1], shape[2] = shape[2], shape[1]
	}
	return shape
}

// turn views a tensor of the kept shape in that of the part, and the other way round. It takes nil, of a scope
// that has failed.
func (p *Parameter) turn(t *aclnn.Tensor) *aclnn.Tensor {
	if !p.transposed || t == nil {
		return t
	}
	return t.Transpose(1, 2)
}

// restored returns the values of the part from those that are kept.
func (p *Parameter) restored(kept []float32) []float32 {
	if !p.transposed {
		return kept
	}
	shape := p.kept()
	values := make([]float32, 0, len(kept))
	for n := int(shape[1] * shape[2]); len(kept) > 0; kept = kept[n:] {
		values = append(values, transposed(kept[:n], int(shape[1]), int(shape[2]))...)
	}
	return values
}

// transposed returns the transpose of a matrix. It takes some rows at a time, which the processor's cache holds.
func transposed(m []float32, rows, columns int) []float32 {
	t := make([]float32, len(m))
	for from := 0; from < rows; from += 64 {
		to := min(from+64, rows)
		for c := range columns {
			for r := from; r < to; r++ {
				t[c*rows+r] = m[r*columns+c]
			}
		}
	}
	return t
}

// keep returns the source of the kept elements for a source of the part's.
func (p *Parameter) keep(values source) source {
	if !p.transposed {
		return values
	}
	shape := p.kept()
	n := shape[1] * shape[2]
	return func(lo, hi int64) (all []float32, err error) {
		for at := lo; at < hi && err == nil; {
			expert := at / n
			end := min(hi, (expert+1)*n)
			var some []float32
			of := func(lo, hi int64) ([]float32, error) { return values(expert*n+lo, expert*n+hi) }
			some, err = keepOne(of, shape[1], shape[2], at-expert*n, end-expert*n)
			all, at = append(all, some...), end
		}
		return all, err
	}
}

// keepOne returns the elements [lo, hi) of a matrix [in, out] from a source of its transpose. If they are not
// all of them, it reads of each row of the transpose what is needed and nothing else.
func keepOne(values source, in, out, lo, hi int64) ([]float32, error) {
	if lo == 0 && hi == in*out {
		all, err := values(lo, hi)
		if err != nil {
			return nil, err
		}
		return transposed(all, int(out), int(in)), nil
	}
	kept := make([]float32, hi-lo)
	// first is the least row i of the matrix with i·out + column ≥ limit.
	first := func(limit, column int64) int64 { return max(0, (limit-column+out-1)/out) }
	for column := range out {
		from, to := first(lo, column), first(hi, column)
		if from == to {
			continue
		}
		some, err := values(column*in+from, column*in+to)
		if err != nil {
			return nil, err
		}
		for i, v := range some {
			kept[(from+int64(i))*out+column-lo] = v
		}
	}
	return kept, nil
}
