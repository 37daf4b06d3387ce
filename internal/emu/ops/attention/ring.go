package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// ringAttentionUpdate combines the attention results over two parts of the keys. In SBH the results are [S,B,H] and the
// statistics [B,N,S,8]. The second version also takes packed sequences, TND: results [T,N,D] and statistics of shape [T,N,8], whose
// memory is [N,S,8] for each sequence in turn unless inputSoftmaxLayout is TND too.
func ringAttentionUpdate(c *op.Call) (op.Run, error) {
	names := []string{"prevAttnOut", "prevSoftmaxMax", "prevSoftmaxSum", "curAttnOut", "curSoftmaxMax", "curSoftmaxSum", "attnOutOut", "softmaxMaxOut", "softmaxSumOut"}
	var t [9]*op.Tensor
	for i, n := range names {
		t[i] = c.Tensor(n)
		c.Plain(t[i])
	}
	layout := c.Text("inputLayoutOptional")
	c.DType(t[0], op.FloatTypes...)
	c.Same(t[0], t[3], t[6])
	c.DType(t[1], dtype.Float32)
	c.Same(t[1], t[2], t[4], t[5], t[7], t[8])
	if err := c.Err(); err != nil {
		return nil, err
	}
	if layout == "TND" && c.Has("inputSoftmaxLayoutOptional") {
		return ringUpdatePacked(c, t)
	}
	if layout != "SBH" && layout != "" {
		c.Invalid("inputLayout %q is not supported; use SBH", layout)
	}
	c.Rank(t[0], 3, 3)
	c.Rank(t[1], 4, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	s, b, h := t[0].Dim(0), t[0].Dim(1), t[0].Dim(2)
	n := t[1].Dim(1)
	c.Shape(t[1], []int64{b, n, s, attentionkernel.AttentionStatCopies}, "batch, heads and tokens of the results, and eight copies")
	if n == 0 || h%max(n, 1) != 0 {
		c.Invalid("%v has %d heads, which do not divide the last dimension of %v", t[1], n, t[0])
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if t[0].Len() == 0 {
			return nil
		}
		heads := func(t *op.Tensor) kernel.View {
			d := h / n
			return t.As([]int64{b, n, s, d}, []int64{t.Strides[1], d * t.Strides[2], t.Strides[0], t.Strides[2]})
		}
		return attentionkernel.Merge(heads(t[6]), t[7].View(), t[8].View(),
			[3]kernel.View{heads(t[0]), t[1].View(), t[2].View()}, [3]kernel.View{heads(t[3]), t[4].View(), t[5].View()})
	}, nil
}

// ringUpdatePacked does so with packed sequences.
func ringUpdatePacked(c *op.Call, t [9]*op.Tensor) (op.Run, error) {
	ends, layout := c.Tensor("actualSeqQlenOptional"), c.Text("inputSoftmaxLayoutOptional")
	if layout != "" && layout != "SBH" && layout != "TND" {
		c.Unfit("inputSoftmaxLayout is %q; use TND, SBH or nothing", layout)
	}
	c.Rank(t[0], 3, 3)
	c.Rank(t[1], 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(ends)
	c.DType(ends, dtype.Int64)
	c.Rank(ends, 1, 1)
	tokens, heads, dim := t[0].Dim(0), t[0].Dim(1), t[0].Dim(2)
	c.Shape(t[1], []int64{tokens, heads, attentionkernel.AttentionStatCopies}, "tokens and heads of the results, and eight copies")
	if dim%64 != 0 {
		c.Unfit("%v: the head dimension must be a multiple of 64", t[0])
	}
	for _, s := range []*op.Tensor{t[1], t[2], t[4], t[5], t[7], t[8]} {
		if layout != "TND" && !s.Contiguous() {
			c.Invalid("%v must be contiguous: its bytes are [N,S,8] for each sequence", s)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		bounds, err := elementwise.Indices(ends.View())
		if err != nil {
			return err
		}
		if len(bounds) == 0 || bounds[0] != 0 || bounds[len(bounds)-1] != tokens || !slices.IsSorted(bounds) {
			return fmt.Errorf("%s: actualSeqQlen %s must increase from 0 to %d, the number of tokens", c.Name(), op.Dims(bounds), tokens)
		}
		for i, from := range bounds[:len(bounds)-1] {
			n := bounds[i+1] - from
			if n == 0 {
				continue
			}
			rows := func(t *op.Tensor) kernel.View { return t.View().Narrow(0, from, n).Permuted([]int{1, 0, 2}) }
			stats := rows
			if layout != "TND" {
				stats = func(t *op.Tensor) kernel.View {
					const copies = attentionkernel.AttentionStatCopies
					return part(t, from*heads*copies, []int64{heads, n, copies}, []int64{n * copies, copies, 1})
				}
			}
			if err := attentionkernel.Merge(rows(t[6]), stats(t[7]), stats(t[8]),
				[3]kernel.View{rows(t[0]), stats(t[1]), stats(t[2])}, [3]kernel.View{rows(t[3]), stats(t[4]), stats(t[5])}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
