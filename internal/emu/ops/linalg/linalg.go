package linalg

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/matrix"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
)

// factorisations lists the operators on the matrices of the last two dimensions. They compute in
// double precision. LinalgCholesky and Inverse refuse complex matrices.
var factorisations = op.Table{
	"Qr": qr, "LinalgQr": qr, "Svd": svd, "Slogdet": logDet, "Logdet": logDet, "LinalgCholesky": cholesky, "Inverse": inverseOf,
}.Omits("LinalgQr", "Svd")

// matrices returns the batch dimensions of a tensor and the sizes of its matrices.
func matrices(c *op.Call, t *op.Tensor, types ...dtype.Type) (batch []int64, rows, cols int64) {
	c.Linear(t)
	c.Depth(t)
	c.DType(t, types...)
	if t.Rank() < 2 {
		c.Invalid("%v has %d dimensions; at least 2 are needed", t, t.Rank())
	}
	if c.Err() != nil {
		return nil, 0, 0
	}
	return t.Shape[:t.Rank()-2], t.Dim(-2), t.Dim(-1)
}

// square refuses matrices that are not square.
func square(c *op.Call, t *op.Tensor, rows, cols int64) {
	if rows != cols {
		c.Invalid("%v does not hold square matrices", t)
	}
}

// eachMatrix calls f for every matrix of t, inside Run, and writes the results of each matrix
// one after another to outs. Nil outputs are skipped.
func eachMatrix(t *op.Tensor, outs []*op.Tensor, f func(m matrix.Dense) ([][]float64, error)) error {
	data, release, err := elementwise.Borrow[float64](t.View())
	defer release()
	if err != nil {
		return err
	}
	set := func(out *op.Tensor, values []float64) error {
		if out.DType.IsComplex() {
			return out.SetNumbers(complexOf(values))
		}
		return elementwise.SetFloats(out.View(), values)
	}
	return eachOf(t, data, outs, set, func(data []float64, rows, cols int) ([][]float64, error) {
		return f(matrix.Dense{Rows: rows, Cols: cols, Data: data})
	})
}

// eachComplex is eachMatrix for complex matrices.
func eachComplex(t *op.Tensor, outs []*op.Tensor, f func(m matrix.Complex) [][]complex128) error {
	data, err := t.Numbers(t.Shape)
	if err != nil {
		return err
	}
	return eachOf(t, data, outs, (*op.Tensor).SetNumbers, func(data []complex128, rows, cols int) ([][]complex128, error) {
		return f(matrix.Complex{Rows: rows, Cols: cols, Data: data}), nil
	})
}

func eachOf[T float64 | complex128](t *op.Tensor, data []T, outs []*op.Tensor, set func(*op.Tensor, []T) error, f func(data []T, rows, cols int) ([][]T, error)) error {
	rows, cols := int(t.Dim(-2)), int(t.Dim(-1))
	n := op.Count(t.Shape[:t.Rank()-2])
	results, errs := make([][]T, len(outs)), make([]error, n)
	for i, out := range outs {
		if out != nil {
			results[i] = make([]T, out.Len())
		}
	}
	thread.Parallel(n, 1+1<<13/int64(rows*cols*cols+1), func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			got, err := f(data[int(k)*rows*cols:][:rows*cols], rows, cols)
			errs[k] = err
			for i := range got {
				if outs[i] != nil {
					copy(results[i][int(k)*len(got[i]):], got[i])
				}
			}
		}
	})
	for k, err := range errs {
		if err != nil {
			return fmt.Errorf("matrix %d of %v: %w", k, t, err)
		}
	}
	for i, out := range outs {
		if out == nil || out.Len() == 0 {
			continue
		}
		if err := set(out, results[i]); err != nil {
			return err
		}
	}
	return nil
}

// complexOf returns real numbers as complex ones.
func complexOf(x []float64) []complex128 {
	out := make([]complex128, len(x))
	for i, v := range x {
		out[i] = complex(v, 0)
	}
	return out
}

// complexTypes are the complex element types of the factorisations.
var complexTypes = []dtype.Type{dtype.Complex64, dtype.Complex128}

// qrTypes are the element types that QR accepts. The factors may have another one than the matrix.
var qrTypes = append([]dtype.Type{dtype.Float32, dtype.Float64, dtype.Float16}, complexTypes...)

// doubleTypes are the element types of the other factorisations.
var doubleTypes = append([]dtype.Type{dtype.Float32, dtype.Float64}, complexTypes...)

// holds refuses an output that cannot hold the results for a: of another type, or not complex.
func holds(c *op.Call, a, out *op.Tensor, types ...dtype.Type) {
	c.DType(out, types...)
	if a.DType.IsComplex() && !out.DType.IsComplex() {
		c.Invalid("%v is complex and %v is not", a, out)
	}
}

// qr computes the reduced or the complete factors, or only the reduced R.
func qr(c *op.Call) (op.Run, error) {
	a, q, r := c.Tensor("self"), c.Tensor("Q"), c.Tensor("R")
	reduced, alone := true, false
	if c.Has("mode") {
		mode := c.Int("mode")
		if mode < 0 || mode > 2 {
			c.Invalid("mode %d is unknown; 0 is reduced, 1 complete, 2 R alone", mode)
		}
		reduced, alone = mode != 1, mode == 2
	} else {
		reduced = c.Bool("some")
	}
	batch, rows, cols := matrices(c, a, qrTypes...)
	c.Linear(q, r)
	holds(c, a, q, qrTypes...)
	holds(c, a, r, qrTypes...)
	k := rows
	if reduced {
		k = min(rows, cols)
	}
	c.Shape(r, slices.Concat(batch, []int64{k, cols}), "the upper triangular factor")
	if alone {
		q = nil
	} else {
		c.Shape(q, slices.Concat(batch, []int64{rows, k}), "the orthogonal factor")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	outs := []*op.Tensor{q, r}
	return func(*op.Exec) error {
		if a.DType.IsComplex() {
			return eachComplex(a, outs, func(m matrix.Complex) [][]complex128 {
				q, r := m.QR()
				return [][]complex128{q.Left(int(k)).Data, r.Data[:k*cols]}
			})
		}
		return eachMatrix(a, outs, func(m matrix.Dense) ([][]float64, error) {
			q, r := m.QR()
			return [][]float64{q.Left(int(k)).Data, r.Data[:k*cols]}, nil
		})
	}, nil
}

func svd(c *op.Call) (op.Run, error) {
	a, sigma, u, v := c.Tensor("input"), c.Tensor("sigma"), c.Tensor("u"), c.Tensor("v")
	full, vectors := c.Bool("fullMatrices"), c.Bool("computeUV")
	batch, rows, cols := matrices(c, a, doubleTypes...)
	c.SameDType(a, sigma)
	k := min(rows, cols)
	c.Shape(sigma, slices.Concat(batch, []int64{k}), "the singular values")
	left, right := k, k
	if full {
		left, right = rows, cols
	}
	if vectors {
		c.SameDType(a, u, v)
		c.Shape(u, slices.Concat(batch, []int64{rows, left}), "the left singular vectors")
		c.Shape(v, slices.Concat(batch, []int64{cols, right}), "the right singular vectors")
	} else {
		u, v = nil, nil
	}
	if a.Len() == 0 {
		c.Vacuous("%v is empty", a)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	outs := []*op.Tensor{u, sigma, v}
	return func(*op.Exec) error {
		if a.DType.IsComplex() {
			return eachComplex(a, outs, func(m matrix.Complex) [][]complex128 {
				u, s, v := m.SVD()
				return [][]complex128{u.Left(int(left)).Data, complexOf(s), v.Left(int(right)).Data}
			})
		}
		return eachMatrix(a, outs, func(m matrix.Dense) ([][]float64, error) {
			u, s, v := m.SVD()
			return [][]float64{u.Left(int(left)).Data, s, v.Left(int(right)).Data}, nil
		})
	}, nil
}

// logDet computes the sign of the determinants and the logarithm of their magnitude. Logdet
// computes only the logarithm, which is NaN for a negative determinant that is not complex.
func logDet(c *op.Call) (op.Run, error) {
	a := c.Tensor("self")
	batch, rows, cols := matrices(c, a, doubleTypes...)
	square(c, a, rows, cols)
	outs := []*op.Tensor{nil, c.Tensor(c.Either("logOut", "out"))}
	if c.Has("signOut") {
		outs[0] = c.Tensor("signOut")
	}
	for _, t := range outs {
		if t != nil {
			holds(c, a, t, doubleTypes...)
			c.Shape(t, batch, "one for each matrix")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if a.DType.IsComplex() {
			return eachComplex(a, outs, func(m matrix.Complex) [][]complex128 {
				sign, log := m.LogDet()
				if outs[0] == nil {
					return [][]complex128{nil, {complex(log, cmplx.Phase(sign))}}
				}
				return [][]complex128{{sign}, {complex(log, 0)}}
			})
		}
		return eachMatrix(a, outs, func(m matrix.Dense) ([][]float64, error) {
			sign, log := m.LogDet()
			if outs[0] == nil && sign < 0 {
				log = math.NaN()
			}
			return [][]float64{{sign}, {log}}, nil
		})
	}, nil
}

func cholesky(c *op.Call) (op.Run, error) {
	a, out, upper := c.Tensor("self"), c.Tensor("out"), c.Bool("upper")
	_, rows, cols := matrices(c, a, op.FloatTypes...)
	square(c, a, rows, cols)
	c.Same(a, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return eachMatrix(a, []*op.Tensor{out}, func(m matrix.Dense) ([][]float64, error) {
			if upper {
				m = m.T()
			}
			l, err := m.Cholesky()
			if upper {
				l = l.T()
			}
			return [][]float64{l.Data}, err
		})
	}, nil
}

func inverseOf(c *op.Call) (op.Run, error) {
	a, out := c.Tensor("self"), c.Tensor("out")
	_, rows, cols := matrices(c, a, dtype.Float32, dtype.Float64, dtype.Float16)
	square(c, a, rows, cols)
	c.Same(a, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return eachMatrix(a, []*op.Tensor{out}, func(m matrix.Dense) ([][]float64, error) {
			inv, err := m.Inverse()
			return [][]float64{inv.Data}, err
		})
	}, nil
}
