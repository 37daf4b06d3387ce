package normalization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// hyperPre normalises columns sinkhornSteps times, the only number that CANN takes.
const sinkhornSteps = 20

// hyperMix has the parameters from which a layer computes how its streams mix: phi [2n+n², n·width], alpha [3] and bias [2n+n²].
type hyperMix struct {
	hyperStreams
	x, phi, alpha, bias *op.Tensor
	leading             []int64
}

// readHyperMix reads x and the parameters. refuse is how the operator refuses sizes.
func readHyperMix(c *op.Call, low int, refuse func(string, ...any)) (m hyperMix) {
	m = hyperMix{x: c.Tensor("x"), phi: c.Tensor("phi"), alpha: c.Tensor("alpha"), bias: c.Tensor("bias")}
	if c.Err() != nil {
		return m
	}
	c.Plain(m.x, m.phi, m.alpha, m.bias)
	c.DType(m.x, op.HalfTypes...)
	for _, t := range []*op.Tensor{m.phi, m.alpha, m.bias} {
		c.DType(t, dtype.Float32)
	}
	if rank := m.x.Rank(); rank < low || rank > 4 {
		refuse("%v must have %d to 4 dimensions", m.x, low)
	}
	if c.Err() != nil {
		return m
	}
	m.leading = m.x.Shape[:m.x.Rank()-2]
	m.hyperStreams = hyperStreams{op.Count(m.leading), m.x.Dim(-2), m.x.Dim(-1)}
	const widest, step = 100000, 128
	if m.width < 1 || m.width > widest || m.width%step != 0 {
		refuse("%v: the last dimension must be a multiple of %d up to %d", m.x, step, widest)
	}
	for _, p := range []struct {
		t    *op.Tensor
		want []int64
	}{{m.phi, []int64{m.rows(), m.n * m.width}}, {m.alpha, []int64{3}}, {m.bias, []int64{m.rows()}}} {
		if !slices.Equal(p.t.Shape, p.want) {
			refuse("%v must have shape %s for %v", p.t, op.Dims(p.want), m.x)
		}
	}
	return m
}

// rows is how many numbers phi gives a token: a weight of each stream before and after the layer, and a matrix.
func (m *hyperMix) rows() int64 { return 2*m.n + m.n*m.n }

// with returns the dimensions of the tokens and others.
func (m *hyperMix) with(tail ...int64) []int64 { return append(slices.Clone(m.leading), tail...) }

// hyperNumbers reads tensors as float64.
func hyperNumbers(tensors ...*op.Tensor) (all [][]float64, err error) {
	all = make([][]float64, len(tensors))
	for i, t := range tensors {
		if all[i], err = elementwise.Doubles(t.View()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// setHyper writes tensors, of which some may be nil.
func setHyper(values [][]float64, tensors ...*op.Tensor) error {
	for i, t := range tensors {
		if t != nil {
			if err := elementwise.SetFloats(t.View(), values[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// gate returns α·number·inverse + bias for number i that phi gives a token; inverse is the reciprocal of the token's root mean square,
// and α depends on what the number is for.
func (m *hyperMix) gate(i int64, number, inverse float64, alpha, bias []float64) float64 {
	return float64(alpha[min(i/m.n, 2)]*(number*inverse)) + bias[i]
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// hyperPre computes the layer's input, the weights of its output, and the matrix that mixes the streams, which Sinkhorn's
// iteration makes doubly stochastic, with what the gradient needs.
func hyperPre(c *op.Call) (op.Run, error) {
	m := readHyperMix(c, 4, c.Invalid)
	names := []string{"hin", "hPost", "hRes"}
	if c.Bool("needBackward") {
		names = append(names, "hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut")
	}
	outs := make([]*op.Tensor, 8)
	for i, name := range names {
		outs[i] = c.Tensor(name)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if n := c.Int("hcMult"); n != 4 || m.n != n {
		c.Invalid("hcMult is %d and %v has %d streams; only 4 are supported", n, m.x, m.n)
	}
	if n := c.Int("numIters"); n != sinkhornSteps {
		c.Invalid("numIters is %d; only %d is supported", n, sinkhornSteps)
	}
	steps := append([]int64{2 * sinkhornSteps}, m.leading...)
	for i, want := range [][]int64{m.with(m.width), m.with(m.n), m.with(m.n * m.n), m.with(m.n), m.with(m.rows()), m.with(1), append(slices.Clone(steps), m.n), append(slices.Clone(steps), m.n, m.n)}[:len(names)] {
		c.Plain(outs[i])
		if i == 0 {
			c.SameDType(m.x, outs[i])
		} else {
			c.DType(outs[i], dtype.Float32)
		}
		c.Shape(outs[i], want, "from the sizes of x")
	}
	eps, normEps := c.Float("hcEps"), c.Float("normEps")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := hyperNumbers(m.x, m.phi, m.alpha, m.bias)
		if err != nil {
			return err
		}
		y := [8][]float64{}
		for i, size := range []int64{m.width, m.n, m.n * m.n, m.n, m.rows(), 1, 2 * sinkhornSteps * m.n, 2 * sinkhornSteps * m.n * m.n} {
			y[i] = make([]float64, m.tokens*size)
		}
		long := m.n * m.width
		for t := range m.tokens {
			x, squares := v[0][t*long:][:long], 0.0
			for _, u := range x {
				squares += float64(u * u)
			}
			inverse := 1 / math.Sqrt(squares/float64(long)+normEps)
			y[5][t] = inverse
			matrix := make([]float64, m.n*m.n)
			for i := range m.rows() {
				number := 0.0
				for d, u := range v[1][i*long:][:long] {
					number += float64(u * x[d])
				}
				y[4][t*m.rows()+i] = number
				switch gate := m.gate(i, number, inverse, v[2], v[3]); {
				case i < m.n:
					y[3][t*m.n+i] = logistic(gate) + eps
				case i < 2*m.n:
					y[1][t*m.n+i-m.n] = 2 * logistic(gate)
				default:
					matrix[i-2*m.n] = gate
				}
			}
			for i := range m.n {
				for d, u := range x[i*m.width:][:m.width] {
					y[0][t*m.width+int64(d)] += float64(u * y[3][t*m.n+i])
				}
			}
			m.sinkhorn(matrix, eps, func(step int64, sums, matrix []float64) {
				copy(y[6][(step*m.tokens+t)*m.n:], sums)
				copy(y[7][(step*m.tokens+t)*m.n*m.n:], matrix)
			})
			copy(y[2][t*m.n*m.n:], matrix)
		}
		return setHyper(y[:], outs...)
	}, nil
}

// sinkhorn takes the softmax of the rows of a matrix [n,n], divides its columns by their sums, and then rows and columns in turns.
// It calls note after each of these steps, with the sums that the step had.
func (m *hyperMix) sinkhorn(matrix []float64, eps float64, note func(step int64, sums, matrix []float64)) {
	sums := make([]float64, m.n)
	for i := range m.n {
		row, sum := matrix[i*m.n:][:m.n], 0.0
		highest := slices.Max(row)
		for j, x := range row {
			row[j] = math.Exp(x - highest)
			sum += row[j]
		}
		for j := range row {
			row[j] = row[j]/sum + eps
		}
		sums[i] = sum + eps
	}
	note(0, sums, matrix)
	for step := int64(1); step < 2*sinkhornSteps; step++ {
		for i := range sums {
			sums[i] = eps
		}
		for at, x := range matrix {
			sums[m.line(step, at)] += x
		}
		for at := range matrix {
			matrix[at] /= sums[m.line(step, at)]
		}
		note(step, sums, matrix)
	}
}

// line returns to which sum of a step of sinkhorn an element of the matrix belongs: columns in odd steps, else rows.
func (m *hyperMix) line(step int64, at int) int64 {
	if step%2 == 1 {
		return int64(at) % m.n
	}
	return int64(at) / m.n
}

// hyperPreGrad computes the gradients of hyperPre from what it kept.
func hyperPreGrad(c *op.Call) (op.Run, error) {
	m := readHyperMix(c, 3, c.Unfit)
	kept := []struct {
		name string
		t    *op.Tensor
	}{{name: "gradHin"}, {name: "gradHPost"}, {name: "gradHRes"}, {name: "hPre"}, {name: "hcBeforeNorm"}, {name: "invRms"}, {name: "sumOut"}, {name: "normOut"}}
	for i := range kept {
		kept[i].t = c.Tensor(kept[i].name)
	}
	grads := []*op.Tensor{c.Tensor("gradX"), c.Tensor("gradPhi"), c.Tensor("gradAlpha"), c.Tensor("gradBias")}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if m.n < 1 || m.n > 8 {
		c.Unfit("%v must have 1 to 8 streams", m.x)
	}
	steps := append([]int64{2 * sinkhornSteps}, m.leading...)
	for i, want := range [][]int64{m.with(m.width), m.with(m.n), m.with(m.n * m.n), m.with(m.n), m.with(m.rows()), m.with(1), append(slices.Clone(steps), m.n), append(slices.Clone(steps), m.n, m.n)} {
		c.Plain(kept[i].t)
		if i == 0 {
			c.SameDType(m.x, kept[i].t)
		} else {
			c.DType(kept[i].t, dtype.Float32)
		}
		if matrix := append(m.with(m.n), m.n); i != 2 || !slices.Equal(kept[i].t.Shape, matrix) { // gradHRes may have its matrices as such
			c.Fits(kept[i].t, want, "from the sizes of x")
		}
	}
	c.Plain(grads...)
	for i, like := range []*op.Tensor{m.x, m.phi, m.alpha, m.bias} {
		c.Same(like, grads[i])
	}
	eps := c.Float("hcEps")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		tensors := []*op.Tensor{m.x, m.phi, m.alpha, m.bias}
		for _, k := range kept {
			tensors = append(tensors, k.t)
		}
		v, err := hyperNumbers(tensors...)
		if err != nil {
			return err
		}
		x, phi, alpha, bias, dIn, dPost, dRes, pre, mixed, inverses, sums, norms := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]
		dx, dPhi, dAlpha, dBias := make([]float64, len(x)), make([]float64, len(phi)), make([]float64, 3), make([]float64, m.rows())
		long, square := m.n*m.width, m.n*m.n
		for t := range m.tokens {
			row, dRow, inverse := x[t*long:][:long], dx[t*long:][:long], inverses[t]
			// The gradient of what the gates get: the matrix backwards through Sinkhorn's steps, the weights through their sigmoid.
			dGate := make([]float64, m.rows())
			matrix := dGate[2*m.n:]
			copy(matrix, dRes[t*square:][:square])
			for step := int64(2*sinkhornSteps - 1); step >= 0; step-- {
				normed, along := norms[(step*m.tokens+t)*square:][:square], make([]float64, m.n)
				for at, d := range matrix {
					along[m.line(step, at)] += float64(d * normed[at])
				}
				for at := range matrix {
					matrix[at] -= along[m.line(step, at)]
					if step == 0 {
						matrix[at] *= normed[at]
					} else {
						matrix[at] /= sums[(step*m.tokens+t)*m.n+m.line(step, at)]
					}
				}
			}
			for i := range m.n {
				d, weight := 0.0, pre[t*m.n+i]
				for k, g := range dIn[t*m.width:][:m.width] {
					d += float64(g * row[i*m.width+int64(k)])
					dRow[i*m.width+int64(k)] = float64(g * weight)
				}
				s := weight - eps
				dGate[i] = d * s * (1 - s)
				s = logistic(m.gate(m.n+i, mixed[t*m.rows()+m.n+i], inverse, alpha, bias))
				dGate[m.n+i] = dPost[t*m.n+i] * 2 * s * (1 - s)
			}
			dInverse := 0.0
			for i, d := range dGate {
				number := mixed[t*m.rows()+int64(i)]
				kind := min(int64(i)/m.n, 2)
				dAlpha[kind] += float64(d * (number * inverse))
				dBias[i] += d
				d *= alpha[kind]
				dInverse += float64(d * number)
				d *= inverse
				for k, u := range row {
					dPhi[int64(i)*long+int64(k)] += float64(d * u)
					dRow[k] += float64(d * phi[int64(i)*long+int64(k)])
				}
			}
			shrink := dInverse * inverse * inverse * inverse / float64(long)
			for k, u := range row {
				dRow[k] -= float64(shrink * u)
			}
		}
		return setHyper([][]float64{dx, dPhi, dAlpha, dBias}, grads...)
	}, nil
}
