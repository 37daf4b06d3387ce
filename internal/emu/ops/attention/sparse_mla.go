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

// sharedLatents lists the attention of DeepSeek V4, whose keys are its values too: the tokens of a window, and keys that stand for
// several tokens each, all of them or those that an indexer chose.
var sharedLatents = op.Table{"SparseFlashMla": sparseFlashMLA, "SparseFlashMlaGrad": sparseFlashMLAGrad}.Selects()

// sharedLatent are the arguments that both operators have.
type sharedLatent struct {
	tokens, merged     *indexedTokens // merged is nil without keys that stand for several tokens
	listed, chosen     *op.Tensor     // places of tokens, of which counts says how many, and of merged keys; each may be nil
	counts, used, sink *op.Tensor     // used are lengths of merged keys, and may be nil
	heads, width       int64
	scale              float64
	mode, left, right  int64 // which tokens a query sees
}

// readSharedLatent reads the arguments, of which the forward and the backward operator call some differently.
func readSharedLatent(c *op.Call, query, scale string) *sharedLatent {
	s := &sharedLatent{scale: c.Float(scale), mode: c.Int("oriMaskMode"), left: c.Int("oriWinLeft"), right: c.Int("oriWinRight"), sink: c.Tensor("sinksOptional")}
	optional := func(name string) *op.Tensor {
		if !c.Has(name) {
			return nil
		}
		if t := c.Optional(name); t != nil && t.Len() > 0 {
			return t
		}
		return nil
	}
	s.listed, s.chosen, s.counts, s.used = optional("oriSparseIndicesOptional"), optional("cmpSparseIndicesOptional"), optional("oriTopkLengthOptional"), optional("sequsedCmpKvOptional")
	q, keys, meta := c.Tensor(query), c.Tensor("oriKvOptional"), c.Tensor("metadataOptional")
	merged := optional("cmpKvOptional")
	if c.Err() != nil {
		return s
	}
	c.NoneOf("sequsedQOptional", "cmpTopkLengthOptional")
	if c.Text("layoutKvOptional") != "TND" {
		c.NoneOf("cuSeqlensOriKvOptional", "cuSeqlensCmpKvOptional")
	} else if t := optional("sequsedOriKvOptional"); t != nil {
		c.Invalid("%v is given for oriKv in layout TND, whose lengths are in cuSeqlensOriKv", t)
	}
	c.Plain(meta)
	c.DType(meta, dtype.Int32)
	c.Shape(meta, []int64{1024}, "what the operator of the same name with Metadata returns")
	layouts := [2]string{cmp.Or(c.Text("layoutQOptional"), "BSND"), cmp.Or(c.Text("layoutKvOptional"), "BSND")}
	names := [2]string{"layoutQ", "layoutKv"}
	const pages = "PA_BBND"
	of := func(keys *op.Tensor, sums, used, table string) *indexedTokens {
		x := &indexedTokens{query: q, key: keys, queries: optional("cuSeqlensQOptional"), keys: optional(used), table: optional(table), leading: true}
		if layouts[1] == "TND" {
			x.keys = optional(sums)
		}
		if layouts[0] != "TND" {
			x.queries = nil
			c.NoneOf("cuSeqlensQOptional")
		}
		return x
	}
	s.tokens = of(keys, "cuSeqlensOriKvOptional", "sequsedOriKvOptional", "oriBlockTableOptional")
	s.tokens.check(c, names, layouts, pages, "the lengths of oriKv", 0, nil)
	ratio, mode := c.Int("cmpRatio"), c.Int("cmpMaskMode")
	if mode != 0 && mode != 3 {
		c.Invalid("cmpMaskMode is %d; use 0, or 3 for a causal mask", mode)
	}
	for _, name := range []string{"cmpResidualKvOptional", "cmpBlockTableOptional", "cuSeqlensCmpKvOptional", "cmpSparseIndicesOptional", "sequsedCmpKvOptional"} {
		if t := optional(name); t != nil && merged == nil {
			c.Invalid("%v is given without cmpKv", t)
		}
	}
	if ratio < 1 || ratio > 128 || merged == nil && ratio != 1 {
		c.Invalid("cmpRatio is %d; use 1 to 128, and without cmpKv 1", ratio)
	}
	if merged != nil {
		s.merged = of(merged, "cuSeqlensCmpKvOptional", "sequsedCmpKvOptional", "cmpBlockTableOptional")
		if s.merged.ratio = ratio; layouts[1] != pages {
			if layouts[1] == "BSND" {
				s.merged.keys = nil
			}
		} else if s.used == nil {
			c.Invalid("sequsedCmpKv is null; the emulator needs the lengths of cmpKv in pages")
		}
		if s.merged.residual = optional("cmpResidualKvOptional"); s.merged.residual == nil && ratio != 1 && mode == 3 {
			c.Invalid("cmpResidualKv is null; cmpRatio %d with cmpMaskMode 3 needs it", ratio)
		}
		s.merged.check(c, names, layouts, pages, "the lengths of cmpKv", mode, nil)
	}
	if c.Err() != nil {
		return s
	}
	s.heads, s.width = q.Dim(-2), q.Dim(-1)
	if merged != nil {
		c.SameDType(q, merged)
		if merged.Dim(-1) != s.width {
			c.Invalid("%v and %v must be as wide", q, merged)
		}
	}
	if s.heads < 1 || s.heads > 128 || s.heads&(s.heads-1) != 0 || keys.Dim(-1) != s.width || c.Tiled() && s.width != 512 {
		c.Invalid("%v and %v: want 1 to 128 heads, a power of two, and a head dimension of 512", q, keys)
	}
	c.Plain(s.sink)
	c.DType(s.sink, dtype.Float32)
	c.Shape(s.sink, []int64{s.heads}, "one for each head")
	for _, t := range []*op.Tensor{s.listed, s.chosen} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32)
			c.Shape(t, s.tokens.row(1, t.Dim(-1)), "places of keys for each query")
		}
	}
	if s.used != nil {
		c.Plain(s.used)
		c.DType(s.used, dtype.Int32)
		c.Shape(s.used, []int64{s.tokens.batch}, "one for each sequence")
	}
	if c.Err() == nil {
		s.checkModes(c, ratio, mode)
	}
	return s
}

// checkModes refuses masks that the chip does not have.
func (s *sharedLatent) checkModes(c *op.Call, ratio, mode int64) {
	if !slices.Contains([]int64{0, 3, 4}, s.mode) || s.left < -1 || s.right < -1 {
		c.Invalid("oriMaskMode is %d, oriWinLeft %d and oriWinRight %d; use 0, 3 or 4, and -1 or more", s.mode, s.left, s.right)
	}
	if s.listed != nil {
		if s.counts == nil || s.mode != 0 {
			c.Invalid("oriSparseIndices is given; oriTopkLength must be too, and oriMaskMode 0")
			return
		}
		c.Plain(s.counts)
		c.DType(s.counts, dtype.Int32)
		c.Shape(s.counts, s.listed.Shape[:s.listed.Rank()-1], "one for each row of oriSparseIndices")
	} else if s.counts != nil {
		c.Invalid("oriTopkLength is given without oriSparseIndices")
	}
	if c.Chip() == acceptance.Ascend950 {
		if s.mode != 4 && (s.left != -1 || s.right != -1) {
			c.Invalid("oriWinLeft is %d and oriWinRight %d; they must be -1 without oriMaskMode 4", s.left, s.right)
		}
		return
	}
	switch {
	case s.listed != nil:
		if s.left < 0 || s.right < 0 || s.merged != nil {
			c.Invalid("oriSparseIndices is given; on this chip oriWinLeft %d and oriWinRight %d must not be negative, and cmpKv must be null", s.left, s.right)
		}
	case s.mode != 4 || s.left != 127 || s.right != 0:
		c.Invalid("oriMaskMode is %d, oriWinLeft %d and oriWinRight %d; on this chip use 4, 127 and 0", s.mode, s.left, s.right)
	}
	if s.merged == nil {
		return
	}
	want := int64(128)
	if s.chosen != nil {
		want = 4
		if n := s.chosen.Dim(-1); c.Tiled() && n != 512 && n != 1024 {
			c.Invalid("%v lists %d keys; on this chip use 512 or 1024", s.chosen, n)
		}
	}
	if ratio != want || mode != 3 {
		c.Invalid("cmpRatio is %d and cmpMaskMode %d; on this chip use 3, and 4 with cmpSparseIndices and 128 without", ratio, mode)
	}
}

// latentRow is a query with the keys that it sees.
type latentRow struct {
	query, sequence, token int64
	tokens, merged         []int64 // rows of keys
	listed, chosen         []int   // their places in the lists
}

// each calls f for each query.
func (s *sharedLatent) each(name string, f func(r latentRow) error) error {
	sequences, err := s.tokens.sequences(name)
	if err != nil {
		return err
	}
	var merged []indexedSequence
	if s.merged != nil {
		if merged, err = s.merged.sequences(name); err != nil {
			return err
		}
	}
	var lists [4][]int64
	for i, t := range []*op.Tensor{s.listed, s.counts, s.chosen, s.used} {
		if t != nil {
			if lists[i], err = elementwise.Indices(t.View()); err != nil {
				return err
			}
		}
	}
	for b := range sequences {
		q := &sequences[b]
		if merged != nil && lists[3] != nil {
			if n := lists[3][b]; n < 0 || n > int64(len(merged[b].keys)) {
				return fmt.Errorf("%s: sequsedCmpKv has %d for sequence %d of %d keys", name, n, b, len(merged[b].keys))
			}
			merged[b].keys = merged[b].keys[:lists[3][b]]
		}
		for i := range q.queries {
			r := latentRow{query: q.query + i, sequence: int64(b), token: i}
			if s.listed != nil {
				n, most := lists[1][r.query], s.listed.Dim(-1)
				if n < 0 || n > most {
					return fmt.Errorf("%s: oriTopkLength has %d for rows of %d", name, n, most)
				}
				r.tokens, r.listed = s.tokens.chosen(q, i, lists[0][r.query*most:][:n], 1)
			} else {
				first, end := s.window(q, i)
				r.tokens = q.keys[first:end]
			}
			switch {
			case s.chosen != nil:
				most := s.chosen.Dim(-1)
				r.merged, r.chosen = s.merged.chosen(&merged[b], i, lists[2][r.query*most:][:most], 1)
			case s.merged != nil:
				r.merged = merged[b].keys[:s.merged.visible(&merged[b], i)]
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// window returns the first token that query i of a sequence sees, and the end of those that it sees.
func (s *sharedLatent) window(q *indexedSequence, i int64) (first, end int64) {
	n := int64(len(q.keys))
	own := n - q.queries + i + 1 // the tokens up to that of the query
	end = n
	switch {
	case s.mode == 3:
		end = own
	case s.mode == 4:
		if s.right >= 0 && s.right < n-own {
			end = own + s.right
		}
		if s.left >= 0 && s.left < own-1 {
			first = own - s.left - 1
		}
	}
	end = max(0, min(end, n))
	return min(first, end), end
}

func sparseFlashMLA(c *op.Call) (op.Run, error) {
	s := readSharedLatent(c, "q", "softmaxScale")
	out := c.Tensor("attnOutOut")
	var lse *op.Tensor
	if c.Bool("returnSoftmaxLse") {
		lse = c.Tensor("softmaxLseOutOptional")
	}
	if mode := c.Int("topkValueMode"); mode != 1 {
		c.Invalid("topkValueMode is %d; only 1 is supported", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	query := s.tokens.query
	c.Plain(out)
	c.Same(query, out)
	if lse != nil {
		c.Plain(lse)
		c.DType(lse, dtype.Float32)
		c.Shape(lse, s.statShape(), "a number for each query and head")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(query, s.sink, s.tokens.key, s.mergedKeys())
		if err != nil {
			return err
		}
		queries, sinks, keys := v[0], v[1], v[2:]
		result, sums := make([]float64, len(queries)), make([]float64, int64(len(queries))/s.width)
		err = s.each(c.Name(), func(r latentRow) error {
			for h := range s.heads {
				at := (r.query*s.heads + h) * s.width
				rows, scores, highest := make([][]float64, 0, len(r.tokens)+len(r.merged)), []float64(nil), sinks[h]
				for i, list := range [][]int64{r.tokens, r.merged} {
					for _, k := range list {
						rows = append(rows, keys[i][k*s.width:][:s.width])
					}
				}
				for _, key := range rows {
					scores = append(scores, float64(s.scale*dotted(queries[at:][:s.width], key)))
					highest = max(highest, scores[len(scores)-1])
				}
				total := math.Exp(sinks[h] - highest)
				for _, score := range scores {
					total += math.Exp(score - highest)
				}
				for i, key := range rows {
					addTimes(result[at:][:s.width], key, math.Exp(scores[i]-highest)/total)
				}
				sums[r.query*s.heads+h] = highest + math.Log(total)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return write([][]float64{result, sums}, out, lse)
	}, nil
}

// mergedKeys returns the keys that stand for several tokens, or nil.
func (s *sharedLatent) mergedKeys() *op.Tensor {
	if s.merged == nil {
		return nil
	}
	return s.merged.key
}

// statShape is the shape of a number for each query and head, whose order in memory is that of the queries.
func (s *sharedLatent) statShape() []int64 {
	if q := s.tokens.query; !s.tokens.packed {
		return []int64{q.Dim(0), 1, q.Dim(1), s.heads}
	}
	return []int64{1, s.tokens.query.Dim(0), s.heads}
}

func sparseFlashMLAGrad(c *op.Call) (op.Run, error) {
	s := readSharedLatent(c, "query", "scaleValue")
	dout, out, lse := c.Tensor("dOut"), c.Tensor("out"), c.Tensor("lse")
	dq, dkeys, dsinks := c.Tensor("dQueryOut"), c.Tensor("dOriKvOutOptional"), c.Tensor("dSinksOutOptional")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if s.listed != nil {
		c.Invalid("%v is given; the gradient of listed tokens is not supported", s.listed)
	}
	c.NoneOf("oriSoftmaxL1NormOptional") // the shares of listed tokens
	if c.Chip() != acceptance.Ascend950 {
		c.NoneOf("sequsedOriKvOptional", "sequsedCmpKvOptional", "oriTopkLengthOptional")
	}
	query := s.tokens.query
	c.Plain(dout, out, lse, dq, dkeys, dsinks)
	c.Same(query, dout, out, dq)
	c.Same(s.tokens.key, dkeys)
	c.Same(s.sink, dsinks)
	c.DType(lse, dtype.Float32)
	c.Shape(lse, s.statShape(), "a number for each query and head")
	var dmerged, share *op.Tensor
	if s.merged != nil {
		if dmerged = c.Tensor("dCmpKvOutOptional"); c.Err() == nil {
			c.Plain(dmerged)
			c.Same(s.merged.key, dmerged)
		}
	}
	if s.chosen != nil {
		if share = c.Tensor("cmpSoftmaxL1NormOptional"); c.Err() == nil {
			c.Plain(share)
			c.DType(share, dtype.Float32)
			c.SameShape(s.chosen, share)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(query, s.sink, dout, out, lse, s.tokens.key, s.mergedKeys())
		if err != nil {
			return err
		}
		queries, sinks, grads, outs, sums, keys := v[0], v[1], v[2], v[3], v[4], v[5:]
		like := func(v []float64) []float64 { return make([]float64, len(v)) }
		queryGrads, sinkGrads, keyGrads := like(queries), like(sinks), [][]float64{like(keys[0]), like(keys[1])}
		var shares []float64
		if share != nil {
			shares = make([]float64, share.Len())
		}
		err = s.each(c.Name(), func(r latentRow) error {
			for h := range s.heads {
				row := r.query*s.heads + h
				at := row * s.width
				q, g := queries[at:][:s.width], grads[at:][:s.width]
				delta := dotted(g, outs[at:][:s.width])
				for i, list := range [][]int64{r.tokens, r.merged} {
					for n, k := range list {
						key, keyGrad := keys[i][k*s.width:][:s.width], keyGrads[i][k*s.width:][:s.width]
						p := math.Exp(float64(s.scale*dotted(q, key)) - sums[row])
						ds := p * (dotted(g, key) - delta) * s.scale
						addTimes(queryGrads[at:][:s.width], key, ds)
						addTimes(keyGrad, q, ds)
						addTimes(keyGrad, g, p)
						if i == 1 && r.chosen != nil {
							shares[r.query*s.chosen.Dim(-1)+int64(r.chosen[n])] += p / float64(s.heads)
						}
					}
				}
				sinkGrads[h] -= float64(math.Exp(sinks[h]-sums[row]) * delta)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return write([][]float64{queryGrads, keyGrads[0], sinkGrads, keyGrads[1], shares}, dq, dkeys, dsinks, dmerged, share)
	}, nil
}
