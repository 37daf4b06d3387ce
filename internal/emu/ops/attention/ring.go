package attention

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/op"
)

// ringAttentionUpdate combines the attention results over two parts of the keys. The results are
// [S,B,H], the statistics [B,N,S,8].
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
