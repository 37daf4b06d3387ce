package attention

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blockSparse lists attention in which each block of queries sees chosen blocks of keys.
var blockSparse = op.Table{
	"BlockSparseAttention": blockSparseAttention, "BlockSparseAttentionV2": blockSparseAttention, "BlockSparseAttentionV3": blockSparseAttention,
	"BlockSparseAttentionGrad": blockSparseGrad, "RainFusionAttention": rainFusionAttention,
}.Selects().Omits("BlockSparseAttention", "BlockSparseAttentionV2", "BlockSparseAttentionV3", "RainFusionAttention")

// blocked is attention over blocks: sequences of queries and keys in the layout TND, BNSD or BSND, cut into blocks of x queries and
// y keys.
type blocked struct {
	query, key, value      *op.Tensor
	layout                 string
	batch, heads, keyHeads int64
	width                  int64
	lengths, keyLengths    []int64
	longest, longestKeys   int64
	x, y                   int64
	scale                  float64
}

// readBlocked reads the arguments that the operators share. Without lengths all sequences of BNSD and BSND are complete, and also
// if the operator ignores the lengths there.
func readBlocked(c *op.Call, shape []int64, complete bool) *blocked {
	s := &blocked{
		query: c.Tensor("query"), key: c.Tensor("key"), value: c.Tensor("value"), layout: c.Text("qInputLayout"), keyHeads: c.Int("numKeyValueHeads"),
		lengths: c.Ints("actualSeqLengthsOptional"), keyLengths: c.Ints("actualSeqLengthsKvOptional"), x: 128, y: 128, scale: c.Float("scaleValue"),
	}
	if complete && s.layout != "TND" {
		s.lengths, s.keyLengths = nil, nil
	}
	if c.Err() != nil {
		return s
	}
	c.Plain(s.query, s.key, s.value)
	c.DType(s.query, op.HalfTypes...)
	c.SameDType(s.query, s.key, s.value)
	if !slices.Contains([]string{"TND", "BNSD", "BSND"}, s.layout) || c.Text("kvInputLayout") != s.layout {
		c.Invalid("qInputLayout is %q and kvInputLayout %q; they must be equal, and TND, BNSD or BSND", s.layout, c.Text("kvInputLayout"))
	}
	if shape != nil {
		if len(shape) != 2 || slices.Min(shape) <= 0 {
			c.Invalid("the shape of a block is %s; it must be the number of its queries and that of its keys, above 0", op.Dims(shape))
		} else {
			s.x, s.y = shape[0], shape[1]
		}
	}
	if c.Int("maskType") != 0 {
		c.Invalid("maskType is %d; only 0 is supported, no mask", c.Int("maskType"))
	}
	rank := 4
	if s.layout == "TND" {
		rank = 3
	}
	for _, t := range []*op.Tensor{s.query, s.key, s.value} {
		if t.Rank() != rank {
			s.unfit(c, "%v must have %d dimensions in layout %s", t, rank, s.layout)
		}
	}
	if c.Err() != nil {
		return s
	}
	s.width, s.heads = s.query.Dim(-1), s.dim(s.query, 'N')
	if !op.SameShape(s.key.Shape, s.value.Shape) || s.key.Dim(-1) != s.width || s.dim(s.key, 'N') != s.keyHeads || s.keyHeads < 1 || s.heads%s.keyHeads != 0 {
		s.unfit(c, "%v, %v and %v: keys and values must be as many, as wide as queries, and have numKeyValueHeads %d, which divides the heads of the queries", s.query, s.key, s.value, s.keyHeads)
	}
	if s.layout == "TND" {
		s.packed(c)
	} else {
		s.padded(c)
	}
	return s
}

// unfit refuses what the tiling of these operators refuses, whose error phase one loses.
func (s *blocked) unfit(c *op.Call, format string, args ...any) {
	c.Fail(tilingFailed, format, args...)
}

// dim returns the size of the dimension that the layout names by a letter.
func (s *blocked) dim(t *op.Tensor, letter byte) int64 {
	return t.Dim(strings.IndexByte(s.layout, letter))
}

// packed checks the lengths of sequences that follow each other.
func (s *blocked) packed(c *op.Call) {
	if s.lengths == nil || s.keyLengths == nil {
		s.unfit(c, "actualSeqLengths or actualSeqLengthsKv is null; layout TND needs them")
		return
	}
	if len(s.lengths) != len(s.keyLengths) || len(s.lengths) == 0 || slices.Min(s.lengths) < 0 || slices.Min(s.keyLengths) < 0 || op.Total(s.lengths) != s.query.Dim(0) || op.Total(s.keyLengths) != s.key.Dim(0) {
		s.unfit(c, "actualSeqLengths %s and actualSeqLengthsKv %s must have a number for each sequence, with sums of %d and %d", op.Dims(s.lengths), op.Dims(s.keyLengths), s.query.Dim(0), s.key.Dim(0))
		return
	}
	s.batch, s.longest, s.longestKeys = int64(len(s.lengths)), slices.Max(s.lengths), slices.Max(s.keyLengths)
}

// padded checks the lengths of sequences that have the same space.
func (s *blocked) padded(c *op.Call) {
	s.batch, s.longest, s.longestKeys = s.query.Dim(0), s.dim(s.query, 'S'), s.dim(s.key, 'S')
	if s.key.Dim(0) != s.batch {
		s.unfit(c, "%v and %v must have as many sequences", s.query, s.key)
		return
	}
	if s.lengths == nil && s.keyLengths == nil {
		s.lengths, s.keyLengths = slices.Repeat([]int64{s.longest}, int(s.batch)), slices.Repeat([]int64{s.longestKeys}, int(s.batch))
		return
	}
	for _, n := range []struct {
		name  string
		given []int64
		most  int64
	}{{"actualSeqLengths", s.lengths, s.longest}, {"actualSeqLengthsKv", s.keyLengths, s.longestKeys}} {
		if int64(len(n.given)) != s.batch || s.batch > 0 && (slices.Max(n.given) > n.most || slices.Min(n.given) < 0) {
			s.unfit(c, "%s is %s; both lengths must be given or none, with a number up to %d for each of %d sequences", n.name, op.Dims(n.given), n.most, s.batch)
			return
		}
	}
}

// blockSteps are the numbers of which the queries and keys of a block must be multiples.
type blockSteps struct{ x, y int64 }

// The steps of the operators and of the gradient by chip. The gradient's tiling on other chips than the Ascend950 takes every block.
var (
	attentionSteps = map[bool]blockSteps{true: {1, 16}, false: {1, 128}}
	gradientSteps  = map[bool]blockSteps{true: {64, 64}, false: {1, 1}}
)

// sizes refuses head dimensions and blocks that the kernels do not take. steps has the blocks of the Ascend950 as true.
func (s *blocked) sizes(c *op.Call, steps map[bool]blockSteps, widths ...int64) {
	if c.Chip() != acceptance.Ascend950 && s.layout == "BSND" {
		s.unfit(c, "layout BSND is supported on the Ascend950 only")
	}
	if !c.Tiled() || c.Err() != nil {
		return
	}
	step := steps[c.Chip() == acceptance.Ascend950]
	if !slices.Contains(widths, s.width) {
		s.unfit(c, "%v has a head dimension of %d; use one of %v", s.query, s.width, widths)
	}
	if s.x%step.x != 0 {
		s.unfit(c, "a block has %d queries; it must have a multiple of %d on this chip", s.x, step.x)
	}
	if s.y%step.y != 0 {
		s.unfit(c, "a block has %d keys; it must have a multiple of %d on this chip", s.y, step.y)
	}
}

// blocksOf returns the number of blocks of n tokens. A block may be far larger than n.
func blocksOf(n, size int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/size + 1
}

// place returns the indices of a token in the dimensions of a tensor before that of the head dimension.
func (s *blocked) place(lengths []int64, sequence, head, token int64) []int64 {
	switch s.layout {
	case "TND":
		return []int64{op.Total(lengths[:sequence]) + token, head}
	case "BNSD":
		return []int64{sequence, head, token}
	}
	return []int64{sequence, token, head}
}

// at returns where the vector of a token begins in the values of a tensor.
func (s *blocked) at(t *op.Tensor, lengths []int64, sequence, head, token int64) int64 {
	row := int64(0)
	for i, n := range s.place(lengths, sequence, head, token) {
		row = row*t.Dim(i) + n
	}
	return row * t.Dim(-1)
}

// line is the vector of a token in a tensor.
func (s *blocked) line(t *op.Tensor, sequence, head, token int64) kernel.View {
	v := t.View()
	for _, n := range s.place(s.lengths, sequence, head, token) {
		v = v.Select(0, n)
	}
	return v
}

// blockRow is a query and the keys that it sees.
type blockRow struct {
	sequence, head, token int64
	query                 int64   // where its vector begins
	keys                  []int64 // where their vectors begin
}

// each calls f for each query whose block sees any keys. chosen returns the blocks of keys that a block of queries sees.
func (s *blocked) each(chosen func(sequence, head, block int64) ([]int64, error), f func(r blockRow) error) error {
	for b := range s.batch {
		for h := range s.heads {
			var keys []int64
			for i := range s.lengths[b] {
				if i%s.x == 0 {
					blocks, err := chosen(b, h, i/s.x)
					if err != nil {
						return err
					}
					keys = keys[:0]
					for _, block := range blocks {
						for j := block * s.y; j < min((block+1)*s.y, s.keyLengths[b]); j++ {
							keys = append(keys, s.at(s.key, s.keyLengths, b, h/(s.heads/s.keyHeads), j))
						}
					}
				}
				if len(keys) == 0 {
					continue
				}
				if err := f(blockRow{b, h, i, s.at(s.query, s.lengths, b, h, i), keys}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// attend computes attention into out, and the logarithms of the sums of exponentials into lse, which may be nil. Queries that see no
// key leave both unchanged.
func (s *blocked) attend(out, lse *op.Tensor, chosen func(sequence, head, block int64) ([]int64, error)) error {
	v, err := read(s.query, s.key, s.value)
	if err != nil {
		return err
	}
	return s.each(chosen, func(r blockRow) error {
		scores, result, total := make([]float64, len(r.keys)), make([]float64, s.width), 0.0
		for i, k := range r.keys {
			scores[i] = s.scale * dotted(v[0][r.query:][:s.width], v[1][k:][:s.width])
		}
		highest := slices.Max(scores)
		for i, score := range scores {
			scores[i] = math.Exp(score - highest)
			total += scores[i]
		}
		for i, k := range r.keys {
			addTimes(result, v[2][k:][:s.width], scores[i]/total)
		}
		if lse != nil {
			if err := elementwise.SetFloats(s.line(lse, r.sequence, r.head, r.token), []float64{highest + math.Log(total)}); err != nil {
				return err
			}
		}
		return elementwise.SetFloats(s.line(out, r.sequence, r.head, r.token), result)
	})
}

// blockMask reads a mask [batch, heads, blocks of queries, blocks of keys], in which a number other than 0 lets a block see another.
func (s *blocked) blockMask(c *op.Call, mask *op.Tensor, types ...dtype.Type) func() (func(sequence, head, block int64) ([]int64, error), error) {
	c.Plain(mask)
	c.DType(mask, types...)
	c.Rank(mask, 4, 4)
	queries, keys := blocksOf(s.longest, s.x), blocksOf(s.longestKeys, s.y)
	if want := []int64{s.batch, s.heads, queries, keys}; c.Err() == nil && !op.SameShape(mask.Shape, want) {
		s.unfit(c, "%v must have shape %s, a row for each head and block of queries, and a column for each block of keys", mask, op.Dims(want))
	}
	return func() (func(sequence, head, block int64) ([]int64, error), error) {
		shown, err := elementwise.Doubles(mask.View())
		return func(sequence, head, block int64) (blocks []int64, err error) {
			row := shown[((sequence*s.heads+head)*queries+block)*keys:][:keys]
			for i, n := range row {
				if n != 0 {
					blocks = append(blocks, int64(i))
				}
			}
			return blocks, nil
		}, err
	}
}

// window refuses sliding windows, which the operators announce and do not have.
func (s *blocked) window(c *op.Call, code int32) {
	if before, after := c.Int("preTokens"), c.Int("nextTokens"); before != math.MaxInt32 || after != math.MaxInt32 {
		c.Fail(code, "preTokens is %d and nextTokens %d; only 2147483647 is supported", before, after)
	}
}

func blockSparseAttention(c *op.Call) (op.Run, error) {
	for _, name := range []string{"qInputLayout", "kvInputLayout"} {
		c.RequiredText(name)
	}
	s := readBlocked(c, c.Ints("blockShapeOptional"), false)
	out, precise := c.Tensor("attentionOut"), c.Int("innerPrecise")
	if precise != 0 && precise != 1 && precise != 4 {
		c.Invalid("innerPrecise is %d; use 0, 1 or 4", precise)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, name := range []string{"attenMaskOptional", "blockTableOptional", "qDequantScaleOptional", "kDequantScaleOptional", "vDequantScaleOptional", "pQuantScaleOptional"} {
		if c.Has(name) && c.Optional(name) != nil {
			s.unfit(c, "%v is given; it is not supported", c.Optional(name))
		}
	}
	if c.IntOr("quantMode", 0) != 0 {
		s.unfit(c, "quantMode is %d; only 0 is supported, no quantisation", c.Int("quantMode"))
	}
	switch wide := c.Chip() == acceptance.Ascend950; {
	case wide != (precise == 4):
		s.unfit(c, "innerPrecise is %d; the Ascend950 has 4 only, and other chips 0 and 1", precise)
	case precise == 1 && s.query.DType == dtype.BFloat16:
		s.unfit(c, "innerPrecise is 1 for %v; bfloat16 has 0 only", s.query)
	case c.Int("blockSize") != 0:
		s.unfit(c, "blockSize is %d; only 0 is supported, keys without pages", c.Int("blockSize"))
	}
	s.window(c, tilingFailed)
	s.sizes(c, attentionSteps, 64, 128)
	mask := c.Optional("blockSparseMaskOptional")
	if mask == nil {
		s.unfit(c, "blockSparseMask is null; attention without it is not supported")
		return nil, c.Err()
	}
	choose := s.blockMask(c, mask, dtype.Int8)
	c.Plain(out)
	c.SameDType(s.query, out)
	c.SameShape(s.query, out)
	var lse *op.Tensor
	switch flag := c.Int("softmaxLseFlag"); flag {
	case 0:
	case 1:
		if lse = c.Tensor("softmaxLseOptional"); c.Err() == nil {
			c.Plain(lse)
			c.DType(lse, dtype.Float32)
			c.Shape(lse, append(slices.Clone(s.query.Shape[:s.query.Rank()-1]), 1), "a number for each query and head")
		}
	default:
		s.unfit(c, "softmaxLseFlag is %d; use 0 or 1", flag)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		chosen, err := choose()
		if err != nil {
			return err
		}
		return s.attend(out, lse, chosen)
	}, nil
}

// rainFusionAttention lists the chosen blocks of keys for each block of queries: selectIdx [blocks of all sequences, heads, most
// chosen], of which the first selectNumIdx numbers count.
func rainFusionAttention(c *op.Call) (op.Run, error) {
	index, counts, out, precise := c.Tensor("selectIdx"), c.Tensor("selectNumIdx"), c.Tensor("attentionOut"), c.Int("innerPrecise")
	if shape := c.Ints("blockShape"); shape == nil {
		c.Invalid("blockShape is null; it must be the number of queries of a block, and that of its keys")
	}
	s := readBlocked(c, c.Ints("blockShape"), false)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.NoneOf("attenMaskOptional", "blockTableOptional", "softmaxLseOptional")
	if precise != 0 && precise != 1 || precise == 1 && s.query.DType == dtype.BFloat16 {
		c.Invalid("innerPrecise is %d; use 0, or for float16 1", precise)
	}
	if s.layout == "BSND" {
		c.Invalid("layout BSND is not supported; use TND or BNSD")
	}
	if n := c.Int("blockSize"); n < 0 { // the size of pages, of which the operator has none
		c.Invalid("blockSize is %d; it must not be negative", n)
	}
	s.sizes(c, attentionSteps, 64, 128)
	if c.Ints("actualSeqLengthsOptional") == nil {
		s.unfit(c, "actualSeqLengths and actualSeqLengthsKv are null; the operator needs them")
	}
	if group := s.heads / max(s.keyHeads, 1); group >= 128 || 128%max(group, 1) != 0 {
		s.unfit(c, "%v and numKeyValueHeads %d: the heads of a key must be fewer than 128, and divide it", s.query, s.keyHeads)
	}
	c.Plain(index, counts, out)
	c.DType(index, dtype.Int64)
	c.DType(counts, dtype.Int64)
	c.SameDType(s.query, out)
	c.SameShape(s.query, out)
	if c.Rank(index, 3, 3); c.Err() != nil {
		return nil, c.Err()
	}
	var first []int64 // number of the first block of a sequence
	blocks := int64(0)
	for _, n := range s.lengths {
		first = append(first, blocks)
		blocks += blocksOf(n, s.x)
	}
	c.Shape(index, []int64{blocks, s.heads, index.Dim(2)}, "a row for each block of queries and head")
	c.Shape(counts, index.Shape[:2], "one for each row of selectIdx")
	return func(*op.Exec) error {
		listed, err := elementwise.Indices(index.View())
		if err != nil {
			return err
		}
		many, err := elementwise.Indices(counts.View())
		if err != nil {
			return err
		}
		return s.attend(out, nil, func(sequence, head, block int64) ([]int64, error) {
			row := (first[sequence]+block)*s.heads + head
			n, keys := many[row], blocksOf(s.keyLengths[sequence], s.y)
			if n < 0 || n > index.Dim(2) {
				return nil, fmt.Errorf("%s: selectNumIdx has %d for rows of %d", c.Name(), n, index.Dim(2))
			}
			chosen := listed[row*index.Dim(2):][:n]
			for i, k := range chosen {
				if k < 0 || k >= keys || i > 0 && k <= chosen[i-1] {
					return nil, fmt.Errorf("%s: selectIdx has %v for %d blocks of keys; they must ascend", c.Name(), chosen, keys)
				}
			}
			return chosen, nil
		})
	}, c.Err()
}

func blockSparseGrad(c *op.Call) (op.Run, error) {
	dout, out, lse, mask := c.Tensor("dout"), c.Tensor("attentionOut"), c.Tensor("softmaxLse"), c.Tensor("blockSparseMaskOptional")
	grads := []*op.Tensor{c.Tensor("dq"), c.Tensor("dk"), c.Tensor("dv")}
	c.Needs("blockShapeOptional")
	s := readBlocked(c, c.Ints("blockShapeOptional"), c.Chip() == acceptance.Ascend950)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if t := c.Optional("attenMaskOptional"); t != nil {
		c.Invalid("%v is given; it is not supported", t)
	}
	s.window(c, op.InvalidParam)
	s.sizes(c, gradientSteps, 128)
	if c.Chip() != acceptance.Ascend950 && s.heads != s.keyHeads {
		s.unfit(c, "%v and %v must have as many heads on this chip", s.query, s.key)
	}
	c.Plain(append([]*op.Tensor{dout, out, lse}, grads...)...)
	c.Same(s.query, dout, out, grads[0])
	c.Same(s.key, grads[1], grads[2])
	c.DType(lse, dtype.Float32)
	if rows := s.query.Shape[:s.query.Rank()-1]; !slices.Equal(lse.Shape, rows) { // CANN compares the number of sequences only
		c.Shape(lse, append(slices.Clone(rows), 1), "a number for each query and head")
	}
	choose := s.blockMask(c, mask, dtype.Bool, dtype.Uint8)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(s.query, s.key, s.value, dout, out, lse)
		if err != nil {
			return err
		}
		chosen, err := choose()
		if err != nil {
			return err
		}
		d := [][]float64{make([]float64, len(v[0])), make([]float64, len(v[1])), make([]float64, len(v[2]))}
		if err := s.each(chosen, func(r blockRow) error {
			q, g := v[0][r.query:][:s.width], v[3][r.query:][:s.width]
			delta := dotted(g, v[4][r.query:][:s.width])
			for _, k := range r.keys {
				key := v[1][k:][:s.width]
				p := math.Exp(float64(s.scale*dotted(q, key)) - v[5][r.query/s.width])
				ds := p * (dotted(g, v[2][k:][:s.width]) - delta) * s.scale
				addTimes(d[0][r.query:][:s.width], key, ds)
				addTimes(d[1][k:][:s.width], q, ds)
				addTimes(d[2][k:][:s.width], g, p)
			}
			return nil
		}); err != nil {
			return err
		}
		return write(d, grads...)
	}, nil
}
