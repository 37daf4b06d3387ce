package moe

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// mapped is a call of the operators whose routing is a map [tokens, experts]. A permuted row
// stands for a pair of a token and an expert, and rows are sorted by expert, then token. If
// padded, every expert has capacity rows; otherwise every token has choices experts.
type mapped struct {
	*op.Call
	routing, sorted          *op.Tensor
	tokens, experts, rows    int64
	choices, capacity, width int64
	padded                   bool
	partial                  bool // without padding a token may use fewer places than it has
}

// mapTypes are the element types of a routing map.
var mapTypes = []dtype.Type{dtype.Int8, dtype.Bool}

// check refuses a map, places or rows with the wrong type or shape. It needs the numbers of
// tokens, experts and rows.
func (m *mapped) check(rows *op.Tensor) {
	m.DType(rows, op.FloatTypes...)
	m.DType(m.sorted, dtype.Int32)
	m.Rank(rows, 2, 2)
	m.Rank(m.sorted, 1, 1)
	if m.routing != nil {
		m.DType(m.routing, mapTypes...)
		m.Shape(m.routing, []int64{m.tokens, m.experts}, "a choice for each token and expert")
	}
	if m.Err() != nil {
		return
	}
	m.rows, m.width = m.sorted.Len(), rows.Dim(-1)
	m.Shape(rows, []int64{m.rows, m.width}, "a row for each of sortedIndices")
	per, of := m.experts, "experts"
	if !m.padded {
		per, of = m.tokens, "tokens"
	}
	if m.rows%max(per, 1) != 0 {
		m.Invalid("%v has %d places; they must divide evenly between %d %s", m.sorted, m.rows, per, of)
	}
	m.choices, m.capacity = m.rows/max(m.tokens, 1), m.rows/max(m.experts, 1)
}

// countExperts sets the number of experts to the columns of the map or of the probabilities.
// Without either the number is not needed and is set to 1.
func (m *mapped) countExperts(probs *op.Tensor) {
	m.experts = 1
	for _, t := range []*op.Tensor{probs, m.routing} {
		if t == nil {
			continue
		}
		if m.Rank(t, 2, 2); m.Err() == nil {
			m.experts = t.Dim(-1)
		}
	}
}

// pairs returns the token and the expert of each row. Without padding these are the pairs that
// the map selects; with padding they are the first capacity tokens of every expert, selected
// ones first.
func (m *mapped) pairs() (token, expert []int64, err error) {
	chosen, err := elementwise.Indices(m.routing.View())
	if err != nil {
		return nil, nil, err
	}
	count := make([]int64, m.tokens)
	for e := range m.experts {
		var in, out []int64
		for t := range m.tokens {
			if chosen[t*m.experts+e] != 0 {
				in = append(in, t)
				count[t]++
			} else {
				out = append(out, t)
			}
		}
		if m.padded {
			in = append(in, out...)[:m.capacity]
		}
		for _, t := range in {
			token, expert = append(token, t), append(expert, e)
		}
	}
	for t, n := range count {
		if !m.padded && (n > m.choices || n < m.choices && !m.partial) {
			return nil, nil, fmt.Errorf("the map chooses %d experts for token %d, but there are rows for %d of each token", n, t, m.choices)
		}
	}
	return token, expert, nil
}

// at returns the flat positions of pairs in a tensor [tokens, experts].
func (m *mapped) at(token, expert []int64) []int64 {
	at := make([]int64, len(token))
	for i := range at {
		at[i] = token[i]*m.experts + expert[i]
	}
	return at
}

// places reads sortedIndices: with padding it holds the token of each row, otherwise the rows of
// each token, and -1 for a place that a token does not use.
func (m *mapped) places() ([]int64, error) {
	limit := m.rows
	if m.padded {
		limit = m.tokens
	}
	places, err := elementwise.Indices(m.sorted.View())
	if err != nil {
		return nil, err
	}
	for i, k := range places {
		if unused := k == -1 && m.partial && !m.padded; (k < 0 || k >= limit) && !unused {
			return nil, fmt.Errorf("place %d at position %d of sortedIndices is out of range for %d", k, i, limit)
		}
	}
	return places, nil
}

// positions returns the flat positions of the rows in a tensor [tokens, experts].
func (m *mapped) positions(places []int64) ([]int64, error) {
	if !m.padded {
		token, expert, err := m.pairs()
		return m.at(token, expert), err
	}
	expert := make([]int64, m.rows)
	for i := range expert {
		expert[i] = int64(i) / m.capacity
	}
	return m.at(places, expert), nil
}

// combination prepares the sum of the rows of x by token. scale multiplies the rows and may be
// nil. With padding, sorted lists the rows sorted by token.
func (m *mapped) combination(x kernel.View, places []int64, scale []float32) (c indexing.Combination, sorted []int64) {
	c = indexing.Combination{X: x, Choices: m.choices, Index: places}
	if m.padded {
		sorted = order.Stable(places)
		terms := make([][]int64, m.tokens)
		for _, row := range sorted {
			terms[places[row]] = append(terms[places[row]], row)
			c.Choices = max(c.Choices, int64(len(terms[places[row]])))
		}
		c.Choices = max(c.Choices, 1)
		c.Index = make([]int64, m.tokens*c.Choices)
		for i := range c.Index {
			c.Index[i] = -1
		}
		for t, rows := range terms {
			copy(c.Index[int64(t)*c.Choices:], rows)
		}
	}
	if scale != nil {
		c.Scale = make([]float32, len(c.Index))
		for i, row := range c.Index {
			if row >= 0 {
				c.Scale[i] = scale[row]
			}
		}
	}
	return c, sorted
}

// mapPermute sends tokens to the experts that a map selects.
func mapPermute(c *op.Call) (op.Run, error) {
	x, probs, out, outProbs := c.Tensor("tokens"), c.Optional("probsOptional"), c.Tensor("permuteTokensOut"), c.Optional("permuteProbsOutOptional")
	m := &mapped{Call: c, routing: c.Tensor("routingMap"), sorted: c.Tensor("sortedIndicesOut"), padded: c.Bool("dropAndPad")}
	c.Rank(m.routing, 2, 2)
	c.Rank(x, 2, 2)
	c.SameDType(x, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.tokens, m.experts = m.routing.Shape[0], m.routing.Shape[1]
	if n := c.Int("numOutTokens"); n < 0 || n > m.tokens*m.experts {
		c.Invalid("numOutTokens is %d; it must be 0 to %d, the elements of %v", n, m.tokens*m.experts, m.routing)
	} else {
		per := max(m.tokens, 1)
		if m.padded {
			per = max(m.experts, 1)
		}
		c.Shape(m.sorted, []int64{n / per * per}, "numOutTokens, rounded down to the same number for each")
	}
	m.check(out)
	c.Shape(x, []int64{m.tokens, m.width}, "a row for each token of the map")
	if m.padded && m.capacity > m.tokens {
		c.Invalid("%d rows for each of %d experts are more than %d tokens", m.capacity, m.experts, m.tokens)
	}
	if probs != nil {
		if outProbs == nil {
			c.Fail(op.NullPointer, "permuteProbsOutOptional is null; probsOptional asks for it")
			return nil, c.Err()
		}
		c.SameDType(x, probs, outProbs)
		c.Shape(probs, m.routing.Shape, "as the map")
		c.Shape(outProbs, []int64{m.rows}, "one for each row")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		token, expert, err := m.pairs()
		if err != nil || m.rows == 0 {
			return err
		}
		places := token
		if !m.padded {
			places = order.Stable(token)
		}
		if err := indexing.SetInts(m.sorted.View(), places); err != nil {
			return err
		}
		if probs != nil {
			if err := indexing.PickFlat(outProbs.View(), probs.View(), m.at(token, expert)); err != nil {
				return err
			}
		}
		if out.Len() == 0 {
			return nil
		}
		return indexing.Rows(out.View(), x.View(), token)
	}, nil
}

// mapPermuteGrad is the gradient of mapPermute: it sums the rows of each token.
func mapPermuteGrad(c *op.Call) (op.Run, error) {
	grad, gradProbs := c.Tensor("permutedTokenOutputGrad"), c.Optional("permutedProbsOutputGradOptional")
	out, outProbs := c.Tensor("tokensGradOut"), c.Optional("probsGradOutOptional")
	m := &mapped{
		Call: c, routing: c.Optional("routingMapOptional"), sorted: c.Tensor("sortedIndices"), padded: c.Bool("dropAndPad"),
		tokens: c.Int("tokensNum"), experts: c.Int("numExperts"), partial: true,
	}
	if m.tokens < 1 || m.experts < 1 {
		c.Invalid("tokensNum is %d and numExperts %d; both must be above 0", m.tokens, m.experts)
		return nil, c.Err()
	}
	c.SameDType(grad, out)
	c.Rank(grad, 2, 2)
	if c.Err() == nil && (grad.Len() == 0 || out.Len() == 0) {
		return op.Nothing, nil // CANN returns before it looks at shapes, and writes nothing
	}
	m.check(grad)
	c.Shape(out, []int64{m.tokens, m.width}, "a row for each token")
	withProbs := gradProbs != nil && outProbs != nil
	if withProbs {
		if m.routing == nil && !m.padded {
			c.Fail(op.NullPointer, "routingMapOptional is null; the gradient of probabilities needs it")
		}
		c.SameDType(grad, gradProbs, outProbs)
		c.Shape(gradProbs, []int64{m.rows}, "one for each row")
		c.Shape(outProbs, []int64{m.tokens, m.experts}, "as the map")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		places, err := m.places()
		if err != nil {
			return err
		}
		if withProbs {
			if err := m.spread(outProbs.View(), gradProbs.View(), places); err != nil {
				return err
			}
		}
		if m.rows == 0 || out.Len() == 0 {
			return op.ZeroAll(out)
		}
		sums, _ := m.combination(grad.View(), places, nil)
		return sums.Into(out.View())
	}, nil
}

// spread writes a value per row to the row's pair in out [tokens, experts], and 0 elsewhere.
func (m *mapped) spread(out, values kernel.View, places []int64) error {
	if err := elementwise.Zero(out); err != nil || m.rows == 0 {
		return err
	}
	at, err := m.positions(places)
	if err != nil {
		return err
	}
	if len(at) == 0 {
		return nil
	}
	index, release := kernel.TemporaryInt64(int64(len(at)))
	defer release()
	if err := indexing.SetInts(index, at); err != nil {
		return err
	}
	return indexing.PutFlat(indexing.ScatterSet, out, index, values.Narrow(0, 0, int64(len(at))))
}

// mapUnpermute sums the rows of every token, weighted by probs.
func mapUnpermute(c *op.Call) (op.Run, error) {
	x, probs, out, size := c.Tensor("permutedTokens"), c.Optional("probsOptional"), c.Tensor("unpermutedTokens"), c.Ints("restoreShapeOptional")
	m := &mapped{Call: c, routing: c.Optional("routingMapOptional"), sorted: c.Tensor("sortedIndices"), padded: c.Bool("paddedMode"), partial: true}
	if size == nil && probs == nil {
		c.Fail(op.NullPointer, "restoreShapeOptional is null, and probsOptional too; one must give the number of tokens")
	}
	c.Rank(out, 2, 2)
	c.SameDType(x, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if size != nil {
		c.Shape(out, size, "restoreShapeOptional")
	}
	m.tokens = out.Shape[0]
	m.countExperts(probs)
	m.check(x)
	c.Shape(out, []int64{m.tokens, m.width}, "rows of permutedTokens")
	outProbs, index, tokens := c.Optional("permuteProbs"), c.Optional("outIndex"), c.Optional("permuteTokenId")
	if probs != nil {
		if m.routing == nil {
			c.Fail(op.NullPointer, "routingMapOptional is null; probsOptional needs it")
		}
		c.DType(probs, op.FloatTypes...)
		c.Shape(probs, []int64{m.tokens, m.experts}, "as the map")
		if outProbs != nil {
			c.SameDType(probs, outProbs)
			c.Shape(outProbs, []int64{m.rows}, "one for each row")
		}
	}
	if m.padded { // otherwise the device does not write them
		for _, t := range []*op.Tensor{index, tokens} {
			if t == nil {
				c.Fail(op.NullPointer, "outIndex or permuteTokenId is null; paddedMode writes them")
				return nil, c.Err()
			}
			c.DType(t, dtype.Int32)
			c.Shape(t, []int64{m.rows}, "one for each row")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		places, err := m.places()
		if err != nil {
			return err
		}
		if m.rows == 0 || out.Len() == 0 {
			return op.ZeroAll(out)
		}
		var scale, each []float32
		switch {
		case probs != nil && m.padded:
			scale, err = m.weights(probs, outProbs, places)
		case probs != nil:
			each, err = m.weightsOfPlaces(probs, outProbs, places)
		}
		if err != nil {
			return err
		}
		sums, sorted := m.combination(x.View(), places, scale)
		if each != nil {
			sums.Scale = each
		}
		if m.padded {
			ids := make([]int64, m.rows)
			for i, row := range sorted {
				ids[i] = places[row]
			}
			if err := indexing.SetInts(index.View(), sorted); err != nil {
				return err
			}
			if err := indexing.SetInts(tokens.View(), ids); err != nil {
				return err
			}
		}
		return sums.Into(out.View())
	}, nil
}

// weights returns the probabilities of the rows and also writes them to out unless it is nil.
func (m *mapped) weights(probs, out *op.Tensor, places []int64) ([]float32, error) {
	at, err := m.positions(places)
	if err != nil {
		return nil, err
	}
	if out != nil {
		if err := indexing.PickFlat(out.View(), probs.View(), at); err != nil {
			return nil, err
		}
	}
	all, err := elementwise.Floats(probs.View())
	if err != nil {
		return nil, err
	}
	rows := make([]float32, len(at))
	for i, k := range at {
		rows[i] = all[k]
	}
	return rows, nil
}

// weightsOfPlaces returns the probability of each place of sortedIndices, for rows without padding, and also writes them to out
// unless it is nil. CANN's kernel selects them by the map in the order of memory, by token and then by expert, although the
// document transposes both, and multiplies the row that place i names by the i-th of them. A map that chooses fewer experts
// than a token has places would shift the probabilities of all later tokens, and is refused. A row whose probability is 0 is
// not read.
func (m *mapped) weightsOfPlaces(probs, out *op.Tensor, places []int64) ([]float32, error) {
	chosen, err := elementwise.Indices(m.routing.View())
	if err != nil {
		return nil, err
	}
	all, err := elementwise.Floats(probs.View())
	if err != nil {
		return nil, err
	}
	var at []int64
	for t := range m.tokens {
		for e := range m.experts {
			if k := t*m.experts + e; chosen[k] != 0 {
				at = append(at, k)
			}
		}
		if n := int64(len(at)) - t*m.choices; n != m.choices {
			return nil, fmt.Errorf("routingMapOptional chooses %d experts for token %d, and sortedIndices has %d places for it, so that later tokens would get the probabilities of others; choose an expert for each place, with a probability of 0 where the place is -1", n, t, m.choices)
		}
	}
	if out != nil {
		if err := indexing.PickFlat(out.View(), probs.View(), at); err != nil {
			return nil, err
		}
	}
	scale := make([]float32, len(at))
	for i, k := range at {
		if scale[i] = all[k]; scale[i] == 0 {
			places[i] = -1
		}
	}
	return scale, nil
}

// mapUnpermuteGrad is the gradient of mapUnpermute. The rows and their tokens are given as two
// lists, which the forward operator writes when padding.
func mapUnpermuteGrad(c *op.Call) (op.Run, error) {
	grad, index, ids, probs := c.Tensor("unpermutedTokensGrad"), c.Tensor("outIndex"), c.Tensor("permuteTokenId"), c.Optional("probsOptional")
	out, x, outProbs := c.Tensor("permutedTokensGradOut"), c.Optional("permutedTokensOptional"), (*op.Tensor)(nil)
	m := &mapped{Call: c, routing: c.Optional("routingMapOptional"), sorted: index, padded: c.Bool("dropAndPad")}
	c.Rank(grad, 2, 2)
	c.SameDType(grad, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.tokens = grad.Shape[0]
	m.countExperts(probs)
	m.check(out)
	c.Shape(grad, []int64{m.tokens, m.width}, "a row for each token")
	c.Same(index, ids)
	if probs != nil {
		x, outProbs = c.Tensor("permutedTokensOptional"), c.Tensor("probsGradOutOptional")
		if m.routing == nil {
			c.Fail(op.NullPointer, "routingMapOptional is null; probsOptional needs it")
		}
		c.DType(probs, op.FloatTypes...)
		c.Shape(probs, []int64{m.tokens, m.experts}, "as the map")
		c.Same(out, x)
		c.Same(probs, outProbs)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if m.rows == 0 || out.Len() == 0 {
			return op.ZeroAll(out, outProbs)
		}
		token, err := m.tokensOf(index, ids)
		if err != nil {
			return err
		}
		back := indexing.Combination{X: grad.View(), Choices: 1, Index: token}
		if probs == nil {
			return back.Into(out.View())
		}
		if back.Scale, err = m.weights(probs, nil, token); err != nil {
			return err
		}
		if err := back.Into(out.View()); err != nil {
			return err
		}
		each, release := kernel.Temporary(m.rows, m.width)
		defer release()
		back.Scale = nil
		if err := back.Into(each); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, each, []elementwise.Input{elementwise.Of(each), elementwise.Of(x.View())}); err != nil {
			return err
		}
		sums, releaseSums := kernel.Temporary(m.rows)
		defer releaseSums()
		if err := rowwise.Reduce(rowwise.ReduceSum, sums, each, []int{1}, 0); err != nil {
			return err
		}
		all, releaseAll := kernel.Temporary(m.tokens, m.experts)
		defer releaseAll()
		if err := m.spread(all, sums, token); err != nil {
			return err
		}
		return elementwise.Copy(outProbs.View(), all)
	}, nil
}

// tokensOf returns the token of each row that index lists. No row may occur twice.
func (m *mapped) tokensOf(index, ids *op.Tensor) ([]int64, error) {
	rows, err := elementwise.Indices(index.View())
	if err != nil {
		return nil, err
	}
	tokens, err := elementwise.Indices(ids.View())
	if err != nil {
		return nil, err
	}
	of := make([]int64, m.rows)
	for i := range of {
		of[i] = -1
	}
	for i, r := range rows {
		if r < 0 || r >= m.rows || tokens[i] < 0 || tokens[i] >= m.tokens {
			return nil, fmt.Errorf("position %d names row %d of %d and token %d of %d", i, r, m.rows, tokens[i], m.tokens)
		}
		if of[r] >= 0 {
			return nil, fmt.Errorf("row %d is named twice, the second time at position %d", r, i)
		}
		of[r] = tokens[i]
	}
	return of, nil
}
