package smoke

import (
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

// decoding tries attention over a cache, and the write into it.
func decoding(b *bench) {
	const batch, heads, keyHeads, places, dim = 2, 4, 2, 48, 64
	if b.err != nil {
		return
	}
	d, err := decode.New(b.Registry)
	if b.fail(err) {
		return
	}
	q, qs := b.random(1, batch, heads, 1, dim)
	k, ks := b.random(2, batch, keyHeads, places, dim)
	v, vs := b.random(3, batch, keyHeads, places, dim)
	lengths, scale := []int64{places, 17}, 1/math.Sqrt(dim)
	want := make([]float64, len(qs))
	for row := range batch * heads {
		at := (row/heads*keyHeads + row%heads/(heads/keyHeads)) * places * dim
		scores, total := make([]float64, lengths[row/heads]), 0.
		for p := range scores {
			for i := range dim {
				scores[p] += qs[row*dim+i] * ks[at+p*dim+i]
			}
			scores[p] = math.Exp(scores[p] * scale)
			total += scores[p]
		}
		for p, s := range scores {
			for i := range dim {
				want[row*dim+i] += s / total * vs[at+p*dim+i]
			}
		}
	}
	a := decode.AttentionArgs{Query: q, Layout: ops.BNSD, Keys: k, Values: v, Lengths: lengths, Scale: scale, Out: b.like(q)}
	try(b, d.Attention(), &a, b.out("out", a.Out, narrow(want)))
	b.cacheWrite(d)
}

// cacheWrite writes three tokens into a cache of zeros.
func (b *bench) cacheWrite(d *decode.Operators) {
	const rows, keyHeads, places, dim = 2, 2, 16, 32
	k, ks := b.random(4, 3, keyHeads, dim)
	v, vs := b.random(5, 3, keyHeads, dim)
	slots := []int32{0, 21, 31}
	keys, values := make([]float32, rows*places*keyHeads*dim), make([]float32, rows*places*keyHeads*dim)
	for i, slot := range slots {
		for j := range keyHeads * dim {
			keys[int(slot)*keyHeads*dim+j], values[int(slot)*keyHeads*dim+j] = float32(ks[i*keyHeads*dim+j]), float32(vs[i*keyHeads*dim+j])
		}
	}
	a := decode.WriteArgs{
		Keys: k, Values: v, KeyCache: b.empty(b.dt, rows, places, keyHeads*dim), ValueCache: b.empty(b.dt, rows, places, keyHeads*dim),
		Slots: upload(b, aclnn.Int32, slots, 3),
	}
	fresh := func() error {
		for _, cache := range []*aclnn.Tensor{a.KeyCache, a.ValueCache} {
			if err := aclnn.InplaceZero(b.st, aclnn.InplaceZeroParams{Self: cache}); err != nil {
				return err
			}
		}
		return nil
	}
	tryFresh(b, d.Write(), &a, fresh, output{"keys", a.KeyCache, keys, 0}, output{"values", a.ValueCache, values, 0})
}
