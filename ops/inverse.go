package ops

import "github.com/goascend/cann/aclnn"

// diagonalBlock is the side of the blocks that unitLowerInverse inverts by a power series. The
// powers of larger blocks of similar rows grow like binomial coefficients and would cancel digits.
const diagonalBlock = 8

// unitLowerInverse returns the inverses of I + L, where L is the part of each float32 matrix
// [..., c, c] below its diagonal. It uses products only: aclnnTriangularSolve runs on the slow AI
// CPU. The matrices must be contiguous.
func (s *steps) unitLowerInverse(m *aclnn.Tensor) *aclnn.Tensor {
	c := m.Dim(-1)
	flat := m.Reshape(-1, c, c)
	out := s.Tensor(aclnn.Float32, flat.Shape()...)
	s.Zero(out)
	s.invertDiagonal(out, flat)
	// The inverse of [A 0; B D] is [A⁻¹ 0; −D⁻¹·B·A⁻¹ D⁻¹].
	for side := int64(diagonalBlock); side < c; side *= 2 {
		for at := int64(0); at+side < c; at += 2 * side {
			rows := min(side, c-at-side)
			block := func(t *aclnn.Tensor, row, n, column, m int64) *aclnn.Tensor {
				return t.Narrow(1, row, n).Narrow(2, column, m)
			}
			below := block(flat, at+side, rows, at, side)
			product := s.matmul(below, block(out, at, side, at, side), flat.Dim(0), rows, side)
			corner := s.matmul(block(out, at+side, rows, at+side, rows), product, flat.Dim(0), rows, side)
			launch(s, aclnn.Neg, aclnn.NegParams{Self: corner, Out: block(out, at+side, rows, at, side)})
			s.Free(product)
			s.Free(corner)
		}
	}
	return out.Reshape(m.Shape()...)
}

// invertDiagonal stores the inverses of the diagonal blocks of I + L in those of out. With P = −L,
// whose eighth power is zero, an inverse is (I + P⁴)·(I + P²)·(I + P).
func (s *steps) invertDiagonal(out, m *aclnn.Tensor) {
	c := m.Dim(-1)
	blocks := s.Tensor(aclnn.Float32, m.Dim(0), (c+diagonalBlock-1)/diagonalBlock, diagonalBlock, diagonalBlock)
	each := func(f func(block, place *aclnn.Tensor), t *aclnn.Tensor) {
		for i := range blocks.Dim(1) {
			at := i * diagonalBlock
			n := min(diagonalBlock, c-at)
			f(blocks.Select(1, i).Narrow(1, 0, n).Narrow(2, 0, n), t.Narrow(1, at, n).Narrow(2, at, n))
		}
	}
	s.Zero(blocks)
	each(func(block, place *aclnn.Tensor) { s.Copy(block, place) }, m)
	p := blocks.Reshape(-1, diagonalBlock, diagonalBlock)
	s.lower(p, -1)
	s.scale(p, -1)
	square := s.matmul(p, p, p.Shape()...)
	fourth := s.matmul(square, square, p.Shape()...)
	identity := s.Tensor(aclnn.Float32, diagonalBlock, diagonalBlock)
	launch(s, aclnn.Eye, aclnn.EyeParams{N: diagonalBlock, M: diagonalBlock, Out: identity})
	s.add(p, identity, 1)
	s.addMatmul(p, square, p)
	s.addMatmul(p, fourth, p)
	each(func(block, place *aclnn.Tensor) { s.Copy(place, block) }, out)
	for _, t := range []*aclnn.Tensor{blocks, square, fourth, identity} {
		s.Free(t)
	}
}
