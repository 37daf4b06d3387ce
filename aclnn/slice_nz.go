package aclnn

import (
	"context"

	"github.com/goascend/cann/acl"
)

// untile reads FRACTAL_NZ storage as row-major elements. The host sorts them: CANN 8.1 has no
// operator for it.
func (t *Tensor) untile(ctx context.Context, st *acl.Stream) ([]byte, error) {
	size := t.DType().Size()
	stored, err := t.mem.buf.View(t.at(), t.tiles()*size)
	if err != nil {
		return nil, err
	}
	storage := make([]byte, stored.Size())
	if err := acl.CopyFromDevice(ctx, st, storage, stored); err != nil {
		return nil, err
	}
	r, s := t.Rank(), t.desc.Storage[:t.desc.StorageRank]
	rows, columns := int(t.desc.Dims[r-2]), int(t.desc.Dims[r-1])
	down, across := columns, 1 // elements from one place of the matrix in memory to the next in the result
	if t.swapped() {
		rows, columns = columns, rows
		down, across = 1, rows
	}
	tileRows, c0 := int(s[len(s)-3])*16, int(s[len(s)-1])
	matrix := int(s[len(s)-4]) * tileRows * c0
	out := make([]byte, t.Len()*int64(size))
	for m := range len(out) / max(1, rows*columns*size) {
		from, to := storage[m*matrix*size:], out[m*rows*columns*size:]
		for i := range rows {
			for j := range columns {
				at := (j/c0*tileRows+i)*c0 + j%c0
				copy(to[(i*down+j*across)*size:][:size], from[at*size:])
			}
		}
	}
	return out, nil
}

// tiles is the number of elements of the storage of a view of whole matrices.
func (t *Tensor) tiles() int {
	n := int64(1)
	for _, d := range t.desc.Storage[:t.desc.StorageRank] {
		n *= d
	}
	return int(n)
}

// swapped reports whether the matrices in FRACTAL_NZ storage are the transposes of the view's.
func (t *Tensor) swapped() bool {
	r := t.Rank()
	d, s := &t.desc.Dims, &t.desc.Strides
	return r >= 2 && s[r-2] == 1 && s[r-1] == d[r-2] && (d[r-2] != 1 || d[r-1] != 1)
}
