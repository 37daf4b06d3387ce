package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// indexedDivergences lists the gradient of an indexer whose target is given.
var indexedDivergences = op.Table{"SparseLightningIndexerKLLossGrad": indexerDivergenceGrad}.Selects()

// indexerDivergenceGrad computes an indexer's probabilities of the keys that each query chose, and the gradients of their divergence
// from a target p of the attention: ∂/∂score is Σp·softmax − p.
func indexerDivergenceGrad(c *op.Call) (op.Run, error) {
	x := &indexedTokens{query: c.Tensor("q"), key: c.Tensor("k"), ratio: c.Int("cmpRatio"), leading: true}
	weights, indices, target := c.Tensor("w"), c.Tensor("sparseIndices"), c.Tensor("attnSoftmaxL1Norm")
	dq, dk, dw, own := c.Tensor("dq"), c.Tensor("dk"), c.Tensor("dw"), c.Tensor("softmaxOut")
	sums, keySums := c.Optional("cuSeqLensQOptional"), c.Optional("cuSeqLensKOptional")
	used, usedKeys, meta := c.Optional("seqUsedQOptional"), c.Optional("seqUsedKOptional"), c.Optional("metadataOptional")
	x.residual = c.Optional("cmpResidualKOptional")
	if c.Err() != nil {
		return nil, c.Err()
	}
	x.packed = cmp.Or(c.Text("layoutQ"), "TND") == "TND"
	x.packedKeys = x.packed
	names := [2]string{cmp.Or(c.Text("layoutQ"), "TND"), cmp.Or(c.Text("layoutK"), "TND")}
	if names[0] != names[1] || !slices.Contains([]string{"TND", "BSND"}, names[0]) {
		c.Unfit("layoutQ is %s and layoutK %s; they must be equal, and TND or BSND", names[0], names[1])
	}
	switch mode := c.Int("maskMode"); mode {
	case 0, 3:
		x.causal = mode == 3
	default:
		c.Unfit("maskMode is %d; use 0, or 3 for a causal mask that ends at the lower right corner", mode)
	}
	if x.ratio < 1 || x.ratio > 128 {
		c.Unfit("cmpRatio is %d; use 1 to 128", x.ratio)
	}
	if (used != nil || usedKeys != nil) && meta == nil {
		c.Unfit("metadata is null; seqUsedQ and seqUsedK need what the operator of the same name with Metadata returns")
	}
	c.Plain(x.query, x.key, weights, indices, target, dq, dk, dw, own)
	c.DType(x.query, op.HalfTypes...)
	c.SameDType(x.query, x.key, dq, dk)
	c.DType(indices, dtype.Int32)
	for _, t := range []*op.Tensor{weights, target, dw, own} {
		c.DType(t, dtype.Float32)
	}
	rank := 4
	if x.packed {
		rank = 3
	}
	for _, t := range []*op.Tensor{x.query, x.key, indices} {
		if t.Rank() != rank {
			c.Unfit("%v must have %d dimensions in layout %s", t, rank, names[0])
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	x.batch = x.query.Dim(0)
	if x.packed {
		x.queries, x.keys = sums, keySums
		if sums == nil || keySums == nil {
			c.Unfit("cuSeqLensQ and cuSeqLensK must be given in layout TND")
			return nil, c.Err()
		}
		if sums.Rank() != 1 || sums.Len() < 2 || !slices.Equal(sums.Shape, keySums.Shape) {
			c.Unfit("%v and %v must be as long, with a 0 and a sum for each sequence", sums, keySums)
			return nil, c.Err()
		}
		x.batch = sums.Dim(0) - 1
	} else if x.key.Dim(0) != x.batch {
		c.Unfit("%v and %v must have as many sequences", x.query, x.key)
	}
	for _, t := range []struct {
		t    *op.Tensor
		size int64
	}{{sums, x.batch + 1}, {keySums, x.batch + 1}, {used, x.batch}, {usedKeys, x.batch}, {x.residual, x.batch}, {meta, 64}} {
		if t.t != nil {
			c.Plain(t.t)
			c.DType(t.t, dtype.Int32)
			c.Fits(t.t, []int64{t.size}, "one for each sequence, and 64 numbers in metadata")
		}
	}
	heads, dim, count := x.query.Dim(-2), x.query.Dim(-1), indices.Dim(-1)
	rows := x.query.Shape[:rank-2]
	c.Fits(weights, x.query.Shape[:rank-1], "one for each head of each query")
	c.Fits(indices, append(slices.Clone(rows), 1, count), "the chosen keys of each query")
	c.Fits(target, indices.Shape, "that of sparseIndices")
	c.Fits(own, indices.Shape, "that of sparseIndices")
	c.Fits(dq, x.query.Shape, "that of q")
	c.Fits(dk, x.key.Shape, "that of k")
	c.Fits(dw, weights.Shape, "that of w")
	if x.key.Dim(-1) != dim || x.key.Dim(-2) != 1 {
		c.Unfit("%v and %v: want one head of keys, as wide as the queries", x.query, x.key)
	}
	if c.Tiled() {
		checkDivergence(c, x, count)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.usedSequences(c.Name(), used, usedKeys)
		if err != nil {
			return err
		}
		v, err := read(x.query, x.key, weights, target)
		if err != nil {
			return err
		}
		list, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		g, probabilities := newScoreGrad(v[0], v[1], v[2], heads, dim), make([]float64, own.Len())
		for _, s := range sequences {
			for i := range s.queries {
				row := s.query + i
				keys, places := x.chosen(&s, i, list[row*count:][:count], 1)
				if len(keys) == 0 {
					continue
				}
				scores := g.scores(row, keys)
				highest, total, wanted := slices.Max(scores), 0.0, 0.0
				for n := range scores {
					scores[n] = math.Exp(scores[n] - highest)
					total += scores[n]
					wanted += v[3][row*count+int64(places[n])]
				}
				for n, place := range places {
					p := scores[n] / total
					probabilities[row*count+int64(place)] = p
					scores[n] = float64(p*wanted) - v[3][row*count+int64(place)]
				}
				g.add(row, keys, scores)
			}
		}
		return write([][]float64{g.dQuery, g.dKey, g.dW, probabilities}, dq, dk, dw, own)
	}, nil
}

// checkDivergence refuses sizes that the kernels of the chip do not have.
func checkDivergence(c *op.Call, x *indexedTokens, count int64) {
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	if dim != 128 {
		c.Unfit("%v must have heads of 128 elements", x.query)
	}
	if c.Chip() == acceptance.Ascend950 {
		if heads < 1 || heads > 128 || count < 1 || count > 2048 {
			c.Unfit("%v with %d chosen keys: on this chip use 1 to 128 heads and up to 2048 keys", x.query, count)
		}
		return
	}
	if !slices.Contains([]int64{8, 16, 32, 64}, heads) {
		c.Unfit("%v must have 8, 16, 32 or 64 heads", x.query)
	}
	if !slices.Contains([]int64{512, 1024, 2048, 4096, 8192}, count) {
		c.Unfit("there are %d chosen keys; use 512, 1024, 2048, 4096 or 8192", count)
	}
}

// usedSequences returns the sequences of which only the first queries and keys count.
func (x *indexedTokens) usedSequences(name string, used, usedKeys *op.Tensor) ([]indexedSequence, error) {
	sequences, err := x.sequences(name)
	if err != nil {
		return nil, err
	}
	limit := func(t *op.Tensor, of func(s *indexedSequence) int64, set func(s *indexedSequence, n int64)) error {
		if t == nil {
			return nil
		}
		v, err := elementwise.Indices(t.View())
		if err != nil {
			return err
		}
		for b := range sequences {
			if most := of(&sequences[b]); v[b] < 0 || v[b] > most {
				return fmt.Errorf("%s: %v has %d for sequence %d of %d", name, t, v[b], b, most)
			}
			set(&sequences[b], v[b])
		}
		return nil
	}
	if err := limit(used, func(s *indexedSequence) int64 { return s.queries }, func(s *indexedSequence, n int64) { s.queries = n }); err != nil {
		return nil, err
	}
	err = limit(usedKeys, func(s *indexedSequence) int64 { return int64(len(s.keys)) }, func(s *indexedSequence, n int64) { s.keys = s.keys[:n] })
	return sequences, err
}
