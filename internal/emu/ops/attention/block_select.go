package attention

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blockChoices lists the operators that choose blocks for blockSparse.
var blockChoices = op.Table{"BSASelectBlockMask": selectBlocks}.Selects()

// pooledTokens are queries or keys, of which the mean of each block is taken.
type pooledTokens struct {
	t       *op.Tensor
	lengths []int64 // of sequences
	whole   []int64 // the number of tokens of each block that count, or nil
	size    int64   // of a block
	packed  bool
	heads   int64
	longest int64
}

// blocks returns the number of blocks of a sequence, and counts how many come before in the list of whole.
func (p *pooledTokens) blocks(b int) (n, before int64) {
	up := func(length int64) int64 { return (length + p.size - 1) / p.size }
	for _, length := range p.lengths[:b] {
		before += up(length)
	}
	if !p.packed {
		before = int64(b) * up(p.longest)
	}
	return up(p.lengths[b]), before
}

// counted returns the number of tokens of a block that count.
func (p *pooledTokens) counted(b int, block int64) int64 {
	_, before := p.blocks(b)
	n := p.size
	if p.whole != nil {
		n = min(n, p.whole[before+block])
	}
	return max(0, min(n, p.lengths[b]-block*p.size))
}

// mean returns the mean of the tokens of a block that count, and zeros if none does.
func (p *pooledTokens) mean(v []float64, b int, head, block int64) []float64 {
	width := p.t.Dim(-1)
	sum, n := make([]float64, width), p.counted(b, block)
	for i := range n {
		token := block*p.size + i
		row := (int64(b)*p.heads+head)*p.longest + token
		if p.packed {
			row = (op.Total(p.lengths[:b])+token)*p.heads + head
		}
		addTimes(sum, v[row*width:][:width], 1/float64(n))
	}
	return sum
}

// selectBlocks marks the pairs of a block of queries and a block of keys that attention needs most: the products of their means have
// the largest softmax.
func selectBlocks(c *op.Call) (op.Run, error) {
	query, key, out := c.Tensor("query"), c.Tensor("key"), c.Tensor("blockSparseMaskOut")
	layout, sparsity, scale := cmp.Or(c.Text("qInputLayout"), "BNSD"), c.Float("sparsity"), c.Float("scaleValue")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if scale == 0 {
		scale = 1 / math.Sqrt(128) // the kernel has this scale if the call gives none
	}
	c.Plain(query, key, out)
	c.DType(query, op.HalfTypes...)
	c.SameDType(query, key)
	c.DType(out, dtype.Int8)
	if c.Ints("postBlockShape") != nil {
		c.Invalid("postBlockShape is %s; it must be null", op.Dims(c.Ints("postBlockShape")))
	}
	if other := cmp.Or(c.Text("kvInputLayout"), "BNSD"); layout != other || layout != "BNSD" && layout != "TND" {
		c.Unfit("qInputLayout is %s and kvInputLayout %s; they must be equal, and BNSD or TND", layout, other)
	}
	if !(float32(sparsity) > 0 && float32(sparsity) < 1) {
		c.Unfit("sparsity is %v, the share of the pairs that are kept; it must be above 0 and below 1", sparsity)
	}
	packed, rank, headAxis := layout == "TND", 4, 1
	if packed {
		rank = 3
	}
	for _, t := range []*op.Tensor{query, key} {
		if t.Rank() != rank {
			c.Unfit("%v must have %d dimensions in layout %s", t, rank, layout)
		}
	}
	shape := c.Ints("blockShape")
	if shape == nil {
		shape = []int64{128, 128}
	} else if len(shape) < 2 || shape[0] <= 0 || shape[1] <= 0 || shape[0]%64 != 0 || shape[1]%64 != 0 {
		c.Unfit("blockShape is %s; it must have the queries and the keys of a block, multiples of 64", op.Dims(shape))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads := query.Dim(headAxis)
	if n := c.Int("numKeyValueHeads"); heads < 1 || key.Dim(headAxis) != heads || n != heads {
		c.Unfit("%v, %v and numKeyValueHeads %d: want as many heads of keys as of queries", query, key, n)
	}
	if query.Dim(-1) != 128 || key.Dim(-1) != 128 {
		c.Unfit("%v and %v must have heads of 128 elements", query, key)
	}
	q := newPooledTokens(c, query, "actualSeqLengths", "actualBlockLenQuery", shape[0], packed)
	k := newPooledTokens(c, key, "actualSeqLengthsKV", "actualBlockLenKey", shape[1], packed)
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch := int64(len(q.lengths))
	x, y := (q.longest+q.size-1)/q.size, (k.longest+k.size-1)/k.size
	if len(k.lengths) != len(q.lengths) {
		c.Unfit("%v and %v have %d and %d sequences; they must be as many", query, key, batch, len(k.lengths))
	}
	if x*y == 0 || x*y == 1 && !packed {
		c.Unfit("%v and %v have %d blocks of queries and %d of keys; there must be something to choose", query, key, x, y)
	}
	c.Fits(out, []int64{batch, heads, x, y}, "a number for each pair of blocks")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(query, key)
		if err != nil {
			return err
		}
		mask := make([]float64, out.Len())
		for b := range int(batch) {
			rows, _ := q.blocks(b)
			columns, _ := k.blocks(b)
			for h := range heads {
				scores := blockShares(q, k, v, b, h, rows, columns, scale)
				for _, i := range bestShares(scores, float32(sparsity)) {
					mask[((int64(b)*heads+h)*x+int64(i)/columns)*y+int64(i)%columns] = 1
				}
			}
		}
		return elementwise.SetFloats(out.View(), mask)
	}, nil
}

func newPooledTokens(c *op.Call, t *op.Tensor, lengths, whole string, size int64, packed bool) *pooledTokens {
	p := &pooledTokens{t: t, lengths: c.Ints(lengths), whole: c.Ints(whole), size: size, packed: packed, heads: t.Dim(1)}
	switch {
	case packed && len(p.lengths) == 0:
		c.Unfit("%s is null; layout TND needs the length of each sequence", lengths)
		return p
	case packed:
		p.longest = slices.Max(p.lengths)
		if slices.Min(p.lengths) < 0 || op.Total(p.lengths) > t.Dim(0) {
			c.Unfit("%s is %s; %v has not as many tokens", lengths, op.Dims(p.lengths), t)
		}
	default:
		p.longest = t.Dim(2)
		if p.lengths == nil {
			p.lengths = slices.Repeat([]int64{p.longest}, int(t.Dim(0)))
		}
		if int64(len(p.lengths)) != t.Dim(0) || len(p.lengths) > 0 && (slices.Min(p.lengths) < 0 || slices.Max(p.lengths) > p.longest) {
			c.Unfit("%s is %s; it must have a length up to %d for each sequence of %v", lengths, op.Dims(p.lengths), p.longest, t)
		}
	}
	if c.Err() != nil || p.whole == nil {
		return p
	}
	want := int64(0)
	if last := len(p.lengths) - 1; last >= 0 {
		n, before := p.blocks(last)
		if want = before + n; !packed {
			want = int64(len(p.lengths)) * ((p.longest + size - 1) / size)
		}
	}
	if int64(len(p.whole)) != want {
		c.Unfit("%s has %d numbers; there are %d blocks of %d tokens in %v", whole, len(p.whole), want, size, t)
	} else if want > 0 && (slices.Min(p.whole) < 0 || slices.Max(p.whole) > size) {
		c.Unfit("%s is %s; a block has 0 to %d tokens", whole, op.Dims(p.whole), size)
	}
	return p
}

// blockShares returns the softmax of the scaled products of the means of a sequence and head, a row for each block of queries. Pairs
// with an empty block, which are never chosen, have a share of −1.
func blockShares(q, k *pooledTokens, v [][]float64, b int, head, rows, columns int64, scale float64) []float64 {
	means := make([][]float64, columns)
	for j := range columns {
		means[j] = k.mean(v[1], b, head, j)
	}
	shares := make([]float64, 0, rows*columns)
	for i := range rows {
		mean, row := q.mean(v[0], b, head, i), make([]float64, columns)
		for j := range row {
			row[j] = float64(scale * dotted(mean, means[j]))
		}
		if columns == 0 {
			continue
		}
		highest, total := slices.Max(row), 0.0
		for j := range row {
			row[j] = math.Exp(row[j] - highest)
			total += row[j]
		}
		for j := range row {
			if row[j] /= total; q.counted(b, i) == 0 || k.counted(b, int64(j)) == 0 {
				row[j] = -1
			}
		}
		shares = append(shares, row...)
	}
	return shares
}

// bestShares returns the places of the largest shares, and of equal shares the first. sparsity is the part of them that it keeps. As the
// kernel does, it rounds the number of shares that are kept or of shares that are dropped, whichever is smaller, to at least one.
func bestShares(shares []float64, sparsity float32) []int {
	n := len(shares)
	if n == 0 {
		return nil
	}
	rounded := func(share float32) int { return max(1, int(share*float32(n)+0.5)) }
	count := rounded(sparsity)
	if sparsity > 0.5 && n > 1 {
		count = n - rounded(1-sparsity)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shares[b], shares[a]) })
	order = order[:min(count, n)]
	if empty := slices.IndexFunc(order, func(i int) bool { return shares[i] < 0 }); empty >= 0 {
		order = order[:empty]
	}
	return order
}
