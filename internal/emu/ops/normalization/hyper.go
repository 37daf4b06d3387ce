package normalization

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// hyperConnections lists the operators of manifold-constrained hyper-connections: a layer has several residual streams, which
// it mixes.
var hyperConnections = op.Table{
	"MhcPost": hyperPost, "MhcPostBackward": hyperPostGrad, "MhcPreSinkhorn": hyperPre, "MhcPreSinkhornBackward": hyperPreGrad,
}.Omits("MhcPreSinkhorn")

// hyperStreams holds the sizes: streams [tokens, n, width], of which tokens are one or two dimensions.
type hyperStreams struct{ tokens, n, width int64 }

// readHyper checks the tensors that both directions have against the streams x. mix is nil on the Ascend950 only, where x then
// passes unmixed.
func readHyper(c *op.Call, x, mix, out, post *op.Tensor) (s hyperStreams) {
	c.Plain(x, out, post)
	c.DType(x, op.HalfTypes...)
	c.SameDType(x, out)
	c.DType(post, dtype.Float32)
	c.Rank(x, 3, 4)
	if c.Err() != nil {
		return s
	}
	leading := x.Shape[:x.Rank()-2]
	s = hyperStreams{op.Count(leading), x.Dim(-2), x.Dim(-1)}
	with := func(tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
	c.Shape(out, with(s.width), "the layer's output for each token")
	c.Shape(post, with(s.n), "a weight for each stream")
	switch {
	case mix != nil:
		c.Plain(mix)
		c.DType(mix, dtype.Float32)
		c.Shape(mix, with(s.n, s.n), "a matrix for each token")
	case c.Chip() != acceptance.Ascend950:
		c.Fail(op.NullPointer, "hRes is null, which only the Ascend950 takes")
	}
	const widest, step = 100000, 128
	if c.Err() == nil && (s.n != 4 || s.width < 1 || s.width > widest || s.width%step != 0) {
		c.Fail(op.NoStep, "%v: want 4 streams and a width that is a multiple of %d up to %d", x, step, widest)
	}
	return s
}

// hyperPost computes the streams after a layer: hResᵀ·x + hPost·hOutᵀ for each token.
func hyperPost(c *op.Call) (op.Run, error) {
	x, mix, layer, post, out := c.Tensor("x"), c.Optional("hRes"), c.Tensor("hOut"), c.Tensor("hPost"), c.Tensor("out")
	if c.Err() != nil {
		return nil, c.Err()
	}
	s := readHyper(c, x, mix, layer, post)
	c.Plain(out)
	c.Same(x, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, h, w, m, err := hyperValues(x, layer, post, mix)
		if err != nil {
			return err
		}
		y := make([]float64, len(v))
		for t := range s.tokens {
			for i := range s.n {
				to := y[(t*s.n+i)*s.width:][:s.width]
				for d := range to {
					to[d] = float64(w[t*s.n+i] * h[t*s.width+int64(d)])
				}
				for j := range s.n {
					factor := 0.0
					switch {
					case m != nil:
						factor = m[(t*s.n+j)*s.n+i]
					case i == j:
						factor = 1
					}
					for d, u := range v[(t*s.n+j)*s.width:][:s.width] {
						to[d] += float64(factor * u)
					}
				}
			}
		}
		return elementwise.SetFloats(out.View(), y)
	}, nil
}

// hyperValues reads the tensors of a call; the last one may be nil.
func hyperValues(x, layer, post, mix *op.Tensor) (v, h, w, m []float64, err error) {
	for _, r := range []struct {
		to   *[]float64
		from *op.Tensor
	}{{&v, x}, {&h, layer}, {&w, post}, {&m, mix}} {
		if r.from == nil {
			continue
		}
		if *r.to, err = elementwise.Doubles(r.from.View()); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	return v, h, w, m, nil
}

// hyperPostGrad computes the gradients of hyperPost.
func hyperPostGrad(c *op.Call) (op.Run, error) {
	dy, x, mix, layer, post := c.Tensor("gradOutput"), c.Tensor("x"), c.Optional("hRes"), c.Tensor("hOut"), c.Tensor("hPost")
	dx, dmix, dlayer, dpost := c.Tensor("gradX"), c.Tensor("gradHRes"), c.Tensor("gradHOut"), c.Tensor("gradHPost")
	if c.Err() != nil {
		return nil, c.Err()
	}
	s := readHyper(c, x, mix, layer, post)
	c.Plain(dy, dx, dmix, dlayer, dpost)
	c.Same(x, dy, dx)
	c.Same(layer, dlayer)
	c.Same(post, dpost)
	c.DType(dmix, dtype.Float32)
	if c.Err() == nil {
		c.Shape(dmix, append(slices.Clone(post.Shape), s.n), "a matrix for each token")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, h, w, m, err := hyperValues(x, layer, post, mix)
		if err != nil {
			return err
		}
		g, err := elementwise.Doubles(dy.View())
		if err != nil {
			return err
		}
		grads := [4][]float64{make([]float64, len(v)), make([]float64, s.tokens*s.n*s.n), make([]float64, len(h)), make([]float64, len(w))}
		for t := range s.tokens {
			for i := range s.n {
				row := g[(t*s.n+i)*s.width:][:s.width]
				for d, u := range row {
					grads[2][t*s.width+int64(d)] += float64(w[t*s.n+i] * u)
					grads[3][t*s.n+i] += float64(h[t*s.width+int64(d)] * u)
				}
				for j := range s.n {
					factor := 0.0
					switch {
					case m != nil:
						factor = m[(t*s.n+j)*s.n+i]
					case i == j:
						factor = 1
					}
					at := (t*s.n + j) * s.width
					for d, u := range row {
						grads[0][at+int64(d)] += float64(factor * u)
						grads[1][(t*s.n+j)*s.n+i] += float64(v[at+int64(d)] * u)
					}
				}
			}
		}
		for i, t := range []*op.Tensor{dx, dmix, dlayer, dpost} {
			if err := elementwise.SetFloats(t.View(), grads[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
