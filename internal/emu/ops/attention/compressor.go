package attention

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// compressors lists the operators that make keys that stand for several tokens, as DeepSeek V4 has them, token by token.
var compressors = op.Table{"Compressor": compressor}.Selects().Omits()

// tokenGroups holds the arguments of compressor. Every token has a key and a score for each of columns·width numbers; groups of ratio
// tokens give a compressed key of width numbers each.
type tokenGroups struct {
	x, keyWeight, scoreWeight, state, bias, table, sums, used, start, out *op.Tensor
	ratio, columns, width, batch, hidden                                  int64
	packed, circular                                                      bool
}

// compressor merges the keys of groups of tokens, weighted by the softmax of their scores in each column. With coff 2 a group also sees
// the tokens of the one before, in columns of their own. Keys and scores of tokens are kept in a cache for later calls.
func compressor(c *op.Call) (op.Run, error) {
	s := &tokenGroups{
		x: c.Tensor("x"), keyWeight: c.Tensor("wkv"), scoreWeight: c.Tensor("wgate"), state: c.Tensor("stateCacheRef"), bias: c.Tensor("ape"), table: c.Optional("stateBlockTableOptional"),
		sums: c.Optional("cuSeqlensOptional"), used: c.Optional("sequsedOptional"), start: c.Optional("startPosOptional"), out: c.Tensor("cmpKvOut"),
		ratio: c.Int("cmpRatio"), columns: c.Int("coff"), circular: c.Int("cacheMode") == 2,
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(s.x, s.keyWeight, s.scoreWeight, s.state, s.bias, s.out)
	c.DType(s.x, op.HalfTypes...)
	c.SameDType(s.x, s.keyWeight, s.scoreWeight, s.out)
	c.DType(s.state, dtype.Float32)
	c.DType(s.bias, dtype.Float32)
	for _, t := range []*op.Tensor{s.table, s.sums, s.used, s.start} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32)
		}
	}
	newer := c.Chip() == acceptance.Ascend950
	if mode := c.Int("cacheMode"); mode != 1 && (mode != 2 || !newer) {
		c.Invalid("cacheMode is %d; use 1, pages of a table, or on the Ascend950 2, a ring for each sequence", mode)
	}
	if s.columns != 1 && s.columns != 2 {
		c.Invalid("coff is %d; use 1, or 2 for groups that see the one before", s.columns)
	}
	if s.ratio < 2 || s.ratio > 128 || !newer && s.ratio&(s.ratio-1) != 0 {
		c.Invalid("cmpRatio is %d; use a power of two from 2 to 128, or on the Ascend950 any number from 2 to 128", s.ratio)
	}
	if c.Bool("gradEnabled") {
		c.Invalid("gradEnabled is true; only the Ascend950 has the intermediate results, and the document and the tests differ in what kvOut is")
	}
	for _, name := range []string{"softmaxScoreOut", "kvOut"} { // nothing is written without gradEnabled
		if t := c.Optional(name); t != nil {
			c.DType(t, dtype.Float32)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	s.checkShapes(c)
	if stride := c.Int("stateCacheStrideDim0"); c.Err() == nil && stride != s.state.Strides[0] {
		c.Unfit("stateCacheStrideDim0 is %d; %v has %d", stride, s.state, s.state.Strides[0])
	} else if c.Err() == nil && !newer && !s.state.Contiguous() {
		c.Unfit("%v must be contiguous on this chip", s.state)
	}
	if c.Tiled() && (s.width != 128 && s.width != 512 || s.hidden < 1024 || s.hidden > 10240 || s.hidden%512 != 0) {
		c.Unfit("%v and %v: want 1024 to 10240 columns, a multiple of 512, and keys of 128 or 512 numbers", s.x, s.keyWeight)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error { return s.run(c.Name()) }, nil
}

func (s *tokenGroups) checkShapes(c *op.Call) {
	if s.x.Rank() != 2 && s.x.Rank() != 3 {
		c.Unfit("%v must be [tokens,columns] or [sequences,tokens,columns]", s.x)
	}
	if s.keyWeight.Rank() != 2 || s.state.Rank() != 3 {
		c.Unfit("%v must have 2 dimensions, and %v 3", s.keyWeight, s.state)
	}
	if s.packed = s.x.Rank() == 2; s.packed != (s.sums != nil) {
		c.Unfit("cuSeqlens is %v and %v; tokens of all sequences in one dimension need it, and others have none", s.sums, s.x)
	}
	if c.Err() != nil {
		return
	}
	s.hidden, s.batch, s.width = s.x.Dim(-1), s.x.Dim(0), s.keyWeight.Dim(0)/s.columns
	if s.packed {
		if s.batch = s.sums.Len() - 1; s.sums.Rank() != 1 || s.batch < 0 {
			c.Unfit("%v must hold a 0 and a sum for each sequence", s.sums)
			return
		}
	}
	all := s.columns * s.width
	c.Fits(s.keyWeight, []int64{all, s.hidden}, "coff times the width of a key, and the columns of x")
	c.Fits(s.scoreWeight, []int64{all, s.hidden}, "that of wkv")
	c.Fits(s.bias, []int64{s.ratio, all}, "a row for each token of a group")
	if n := s.state.Dim(1); s.state.Dim(0) < 1 || n < 1 || n > 1024 || s.state.Dim(2) != 2*all {
		c.Unfit("%v must be pages of 1 to 1024 tokens with %d numbers each, twice those of %v", s.state, 2*all, s.keyWeight)
	}
	for _, t := range []*op.Tensor{s.used, s.start} {
		if t != nil {
			c.Fits(t, []int64{s.batch}, "one for each sequence")
		}
	}
	switch {
	case s.table == nil:
		c.Unfit("stateBlockTable is null; the emulator needs to know where the cache of a sequence is")
	case s.circular:
		c.Fits(s.table, []int64{s.batch}, "a page for each sequence")
	case s.table.Rank() != 2 || s.table.Dim(0) != s.batch:
		c.Unfit("%v must have a row of pages for each of %d sequences", s.table, s.batch)
	}
	want := []int64{s.batch, 0, s.width}
	if s.packed {
		tokens := s.x.Dim(0)
		want = []int64{min(tokens, tokens/s.ratio+s.batch), s.width}
	} else {
		want[1] = (s.x.Dim(1) + s.ratio - 1) / s.ratio
	}
	c.Fits(s.out, want, "a key for each group of tokens")
}

// compressedSequence is a sequence: its first row of x, its first row of the result, its tokens, and the place of the first one.
type compressedSequence struct{ row, out, tokens, start int64 }

func (s *tokenGroups) sequences(name string) ([]compressedSequence, error) {
	var lists [3][]int64
	for i, t := range []*op.Tensor{s.sums, s.used, s.start} {
		if t != nil {
			var err error
			if lists[i], err = elementwise.Indices(t.View()); err != nil {
				return nil, err
			}
		}
	}
	all, groups := make([]compressedSequence, s.batch), int64(0)
	for b := range all {
		q, most := &all[b], int64(0)
		if s.packed {
			q.row, most = lists[0][b], lists[0][b+1]-lists[0][b]
			if q.row < 0 || most < 0 || lists[0][b+1] > s.x.Dim(0) || b == 0 && q.row != 0 {
				return nil, fmt.Errorf("%s: cuSeqlens %s must begin with 0 and increase up to the tokens of %v", name, op.Dims(lists[0]), s.x)
			}
		} else {
			most = s.x.Dim(1)
			q.row = int64(b) * most
		}
		if q.tokens = most; lists[1] != nil {
			q.tokens = lists[1][b]
		}
		if lists[2] != nil {
			q.start = lists[2][b]
		}
		if q.tokens < 0 || q.tokens > most || q.start < 0 {
			return nil, fmt.Errorf("%s: sequence %d has %d of %d tokens, from %d on", name, b, q.tokens, most, q.start)
		}
		count := (q.start+q.tokens)/s.ratio - q.start/s.ratio
		if s.packed {
			q.out, groups = groups, groups+count
		}
		if room := s.out.Dim(0); s.packed && groups > room || !s.packed && count > s.out.Dim(1) {
			return nil, fmt.Errorf("%s: %v has no room for the %d groups of sequence %d", name, s.out, count, b)
		}
	}
	return all, nil
}

// page returns the place in the cache of a token of a sequence, and whether tokens may be written there.
func (s *tokenGroups) page(name string, table []int64, b, token int64) (row int64, writable bool, err error) {
	size, page := s.state.Dim(1), int64(0)
	if s.circular {
		page, writable = table[b], true
	} else {
		n := s.table.Dim(1)
		if token/size >= n {
			return 0, false, fmt.Errorf("%s: token %d of sequence %d is beyond the pages of %v", name, token, b, s.table)
		}
		page = table[b*n+token/size]
		writable = page != 0
	}
	if page < 0 || page >= s.state.Dim(0) {
		return 0, false, fmt.Errorf("%s: stateBlockTable has %d for %v", name, page, s.state)
	}
	return page*size + token%size, writable, nil
}

func (s *tokenGroups) run(name string) error {
	sequences, err := s.sequences(name)
	if err != nil {
		return err
	}
	v, err := read(s.x, s.keyWeight, s.scoreWeight, s.state, s.bias)
	if err != nil {
		return err
	}
	table, err := elementwise.Indices(s.table.View())
	if err != nil {
		return err
	}
	state, all := v[3], s.columns*s.width
	for b, q := range sequences {
		// The keys and scores of the new tokens; those before are in the cache.
		fresh := make([][]float64, q.tokens)
		for i := range fresh {
			fresh[i] = make([]float64, 2*all)
			token, row := q.start+int64(i), v[0][(q.row+int64(i))*s.hidden:][:s.hidden]
			for j := range all {
				fresh[i][j] = dotted(row, v[1][j*s.hidden:][:s.hidden])
				fresh[i][all+j] = dotted(row, v[2][j*s.hidden:][:s.hidden]) + v[4][token%s.ratio*all+j]
			}
		}
		of := func(token int64) ([]float64, error) {
			if token >= q.start {
				return fresh[token-q.start], nil
			}
			row, _, err := s.page(name, table, int64(b), token)
			return state[row*2*all:][:2*all], err
		}
		end := (q.start + q.tokens) / s.ratio
		var results []float64
		for group := q.start / s.ratio; group < end; group++ {
			key, err := s.merge(group, of)
			if err != nil {
				return err
			}
			results = append(results, key...)
		}
		out := s.out.View()
		if !s.packed {
			out = out.Select(0, int64(b))
		}
		if err := elementwise.SetFloats(out.Narrow(0, q.out, end-q.start/s.ratio), results); err != nil {
			return err
		}
		kept := q.start // a ring has room for the tokens alone that later groups see
		if s.circular {
			kept = max(kept, (end-s.columns+1)*s.ratio)
		}
		for token := kept; token < q.start+q.tokens; token++ {
			row, writable, err := s.page(name, table, int64(b), token)
			if err != nil {
				return err
			}
			if writable {
				copy(state[row*2*all:], fresh[token-q.start])
			}
		}
	}
	return write([][]float64{state}, s.state)
}

// merge returns the compressed key of a group: in each column the mean of the keys, weighted by the softmax of the scores.
func (s *tokenGroups) merge(group int64, of func(token int64) ([]float64, error)) ([]float64, error) {
	all, key := s.columns*s.width, make([]float64, s.width)
	var tokens [][]float64
	var first []int64 // the column of each token
	for part := range s.columns {
		at := group - s.columns + 1 + part
		if at < 0 {
			continue
		}
		for token := at * s.ratio; token < (at+1)*s.ratio; token++ {
			numbers, err := of(token)
			if err != nil {
				return nil, err
			}
			tokens, first = append(tokens, numbers), append(first, part*s.width)
		}
	}
	for d := range s.width {
		highest, total := math.Inf(-1), 0.0
		for i, t := range tokens {
			highest = max(highest, t[all+first[i]+d])
		}
		for i, t := range tokens {
			w := math.Exp(t[all+first[i]+d] - highest)
			total += w
			key[d] += float64(w * t[first[i]+d])
		}
		key[d] /= total
	}
	return key, nil
}
