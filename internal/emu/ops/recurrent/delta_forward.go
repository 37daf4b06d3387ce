package recurrent

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	recurrentkernel "github.com/goascend/cann/internal/emu/kernel/recurrent"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// chunkLocalCumsum computes the running sum of the gate [B,H,T] within every chunk, forward or
// reversed.
func chunkLocalCumsum(c *op.Call) (op.Run, error) {
	g, out := c.Tensor("g"), c.Tensor("out")
	reverse, scale := c.Bool("reverse"), c.Float("scale")
	c.Plain(g, out)
	c.DType(g, op.FloatTypes...)
	c.DType(out, op.FloatTypes...)
	c.Rank(g, 3, 3)
	c.SameShape(g, out)
	if !c.Bool("headFirst") {
		c.Invalid("headFirst is false; only [B,H,T] is supported")
	}
	if text := c.Text("outputDtypeOptional"); text != "" && text != out.DType.String() {
		c.Invalid("%v must have dtype %s, the argument outputDtypeOptional", out, text)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	d := &deltaForm{b: g.Shape[0], hk: g.Shape[1], hv: g.Shape[1], t: g.Shape[2]}
	if n := c.Int("chunkSize"); n&(n-1) != 0 {
		c.Invalid("chunkSize is %d; it must be a power of two", n)
	}
	cumsumForm(c, d)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.eachChunk(func(q tokenSpan) error {
			return d.heads(func(_, h int64) error {
				v := q.of(out, h)
				if err := rowwise.Scan(rowwise.RunningSum, v, kernel.View{}, q.of(g, h), 0, false, reverse); err != nil || scale == 1 {
					return err
				}
				return elementwise.Map(elementwise.Mul, dtype.Float32, v, []elementwise.Input{elementwise.Of(v), elementwise.Const(elementwise.Real(scale))})
			})
		})
	}, nil
}

// cumsumBlock is the number of elements that the operator sums at once. It determines the blocks
// that the list of pairs describes.
const cumsumBlock = 1 << 17

// cumsumForm is like pack, but for a list of blocks instead of chunks.
func cumsumForm(c *op.Call, d *deltaForm) {
	cu := c.Ints("cuSeqlensOptional")
	d.ends = []int64{d.t}
	d.length = c.Int("chunkSize")
	if d.length <= 0 {
		c.Invalid("chunkSize is %d; it must be positive", d.length)
		return
	}
	if cu == nil {
		return
	}
	if d.b != 1 || len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != d.t || !slices.IsSorted(cu) {
		c.Invalid("cuSeqlensOptional %s must increase from 0 to %d, the number of tokens of one row", op.Dims(cu), d.t)
		return
	}
	d.ends = cu[1:]
	blocks := *d
	for blocks.length = 1; blocks.length*2 <= cumsumBlock/d.length; blocks.length *= 2 {
	}
	if want := blocks.chunkIndexList(); !slices.Equal(c.Ints("chunkIndicesOutOptional"), want) {
		c.Invalid("chunkIndicesOutOptional %s must be %s, the sequence and place of every block of %d tokens", op.Dims(c.Ints("chunkIndicesOutOptional")), op.Dims(want), blocks.length)
	}
}

const chunkList = "chunkIndicesOptional"

func recomputeWU(c *op.Call) (op.Run, error) {
	k, v, beta, a, g := c.Tensor("k"), c.Tensor("v"), c.Tensor("beta"), c.Tensor("a"), c.Tensor("g")
	w, u := c.Tensor("wOut"), c.Tensor("uOut")
	unsupported(c, "gk")
	d := newDeltaForm(c, k, v, chunkList, 64, 128)
	has(c, d.ofValues(), v, u)
	has(c, d.ofW(), w)
	has(c, d.ofGates(), beta, g)
	has(c, d.ofSystem(), a)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.eachChunk(func(q tokenSpan) error {
			return d.heads(func(key, h int64) error {
				return recurrentkernel.DeltaWU(q.of(w, h), q.of(u, h), q.square(a, h), q.of(k, key), q.of(v, h), q.of(beta, h), q.of(g, h))
			})
		})
	}, nil
}

func deltaStates(c *op.Call) (op.Run, error) {
	k, w, u, g := c.Tensor("k"), c.Tensor("w"), c.Tensor("u"), c.Tensor("gOptional")
	initial, final := c.Optional("initialStateOptional"), c.Optional("finalStateOut")
	h, corrected := c.Tensor("hOut"), c.Tensor("vNewOut")
	transposed := c.Bool("stateVFirst")
	unsupported(c, "gkOptional")
	d := newDeltaForm(c, k, u, chunkList, 64, 128)
	has(c, d.ofW(), w)
	has(c, d.ofValues(), u, corrected)
	has(c, d.ofGates(), g)
	has(c, transposedShape(d.ofStates(), transposed), h)
	has(c, transposedShape(d.ofEnds(), transposed), initial)
	if !c.Bool("outputFinalState") {
		final = nil
	} else if final == nil {
		c.Fail(op.NullPointer, "finalStateOut is null and outputFinalState is set")
	}
	has(c, transposedShape(d.ofEnds(), transposed), final)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.sequences(func(q tokenSpan) error {
			return d.heads(func(key, head int64) error {
				return recurrentkernel.DeltaStates(q.states(h, head, transposed), q.of(corrected, head), q.end(final, head, transposed), q.end(initial, head, transposed),
					q.of(k, key), q.of(w, head), q.of(u, head), q.of(g, head), d.length)
			})
		})
	}, nil
}

// turn exchanges the last two dimensions.
func transposedShape(shape []int64, really bool) []int64 {
	if n := len(shape); really {
		shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
	}
	return shape
}

func deltaOutput(c *op.Call) (op.Run, error) {
	query, k, v, h, g, out := c.Tensor("q"), c.Tensor("k"), c.Tensor("v"), c.Tensor("h"), c.Tensor("g"), c.Tensor("oOut")
	scale := c.Float("scale")
	d := newDeltaForm(c, k, v, "chunkOffsetsOptional", 64, 128)
	has(c, d.ofKeys(), query)
	has(c, d.ofValues(), v, out)
	has(c, d.ofStates(), h)
	has(c, d.ofGates(), g)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.eachChunk(func(q tokenSpan) error {
			return d.heads(func(key, head int64) error {
				return recurrentkernel.DeltaOut(q.of(out, head), q.of(query, key), q.of(k, key), q.of(v, head), q.states(h, head, false).Select(0, 0), q.of(g, head), scale)
			})
		})
	}, nil
}
