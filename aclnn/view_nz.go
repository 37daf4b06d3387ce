package aclnn

import "github.com/goascend/cann/internal/dtype"

// AsNZ describes the memory as FRACTAL_NZ storage of this shape: the last two dimensions
// [K, N] are stored as [N1, K1, 16, C0] tiles, C0 being 32 bytes of elements, zero padded.
// It converts nothing (Copy does); the buffer must hold the padded size (NZBytes). Shape and
// strides stay those of the matrix, as CANN requires.
func (t *Tensor) AsNZ() *Tensor {
	v := t.view()
	v.asNZ()
	return &v
}

func (t *Tensor) asNZ() {
	if t.err != nil {
		return
	}
	r := t.Rank()
	c0 := NZBlock(t.DType())
	if r < 2 || r+2 > MaxRank || c0 == 0 || !t.Contiguous() || t.desc.Offset != 0 {
		t.fail("%v cannot be FRACTAL_NZ: it takes 2 to %d dimensions, contiguous from offset 0, of an 8-, 16- or 32-bit dtype", t, MaxRank-2)
		return
	}
	if need := NZBytes(t.DType(), t.desc.Dims[:r]...); t.mem.buf != nil && need > t.mem.buf.Size() {
		t.fail("%v as FRACTAL_NZ needs %d bytes, the buffer has %d", t, need, t.mem.buf.Size())
		return
	}
	k, n := t.desc.Dims[r-2], t.desc.Dims[r-1]
	copy(t.desc.Storage[:], t.desc.Dims[:r-2])
	copy(t.desc.Storage[r-2:], []int64{(n + c0 - 1) / c0, (k + 15) / 16, 16, c0})
	t.desc.StorageRank = uint8(r + 2)
	t.desc.Format = int16(dtype.FractalNZ)
}

// AsND describes the memory of FRACTAL_NZ storage as a contiguous ND tensor of the same shape,
// for operators that convert in place. It converts nothing: Contiguous does. A tensor in ND
// stays as it is.
func (t *Tensor) AsND() *Tensor {
	v := t.view()
	if v.err != nil || v.Format() != FractalNZ {
		return &v
	}
	if !t.Contiguous() {
		v.fail("%v cannot be described as ND: it is transposed", t)
		return &v
	}
	v.desc.Format = int16(dtype.ND)
	v.desc.Storage, v.desc.StorageRank = [len(v.desc.Storage)]int64{t.Len()}, 1
	return &v
}

// NZBlock is C0, the columns of a FRACTAL_NZ tile: 32 bytes of elements. 0 for a dtype that
// has no NZ form.
func NZBlock(dt DType) int64 {
	switch dt.Size() {
	case 1, 2, 4:
		return int64(32 / dt.Size())
	}
	return 0
}

// NZBytes is the size of the FRACTAL_NZ storage of a shape of at least two dimensions.
func NZBytes(dt DType, shape ...int64) int {
	r := len(shape)
	c0 := NZBlock(dt)
	if r < 2 || c0 == 0 {
		return 0
	}
	n := (shape[r-1] + c0 - 1) / c0 * c0 * ((shape[r-2] + 15) / 16 * 16)
	for _, d := range shape[:r-2] {
		n *= d
	}
	return dt.Bytes(int(n))
}

// keepTiles refuses a view of FRACTAL_NZ storage that its tiles cannot express.
func (t *Tensor) keepTiles(breaks bool, what string) {
	if breaks && t.err == nil && t.Format() == FractalNZ {
		t.fail("%v cannot %s in place: its storage is tiled; cast it to ND first", t, what)
	}
}

// sliceNZ takes whole matrices of a batch. It moves the address and not the offset, because
// padding makes the distance between matrices larger than the strides say.
func (t *Tensor) sliceNZ(axis int, start, length, step int64) {
	r, size := t.Rank(), int64(1)
	for i := range axis {
		t.keepTiles(t.desc.Dims[i] != 1, "be sliced behind a batch axis")
	}
	t.keepTiles(step != 1 || axis >= r-2, "be sliced but for whole matrices one after the other")
	if t.err != nil {
		return
	}
	for _, d := range t.desc.Storage[axis+1 : t.desc.StorageRank] {
		size *= d
	}
	t.desc.Address += uint64(t.DType().Bytes(int(start * size)))
	t.desc.Dims[axis], t.desc.Storage[axis] = length, length
}
