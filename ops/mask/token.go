package mask

import "fmt"

// LastTokens returns the position of the last token of every batch item, that is, the row of the
// logits to sample from. With Varlen it is the row among the packed tokens, for every sequence. A
// nil mask is None, for which it is the last query. It refuses items without tokens, and Dense
// masks, whose cells are in device memory; ops.LastTokens reads them.
func LastTokens(m Mask, s Shape) ([]int64, error) {
	last := make([]int64, s.Batch)
	for b := range last {
		last[b] = s.Queries - 1
	}
	switch m := m.(type) {
	case Padding:
		if _, _, err := m.check(s); err != nil {
			return nil, err
		}
		for b := range last {
			last[b] = s.Keys - 1
			for last[b] >= 0 && !m.valid(int64(b), last[b], s.Keys) {
				last[b]--
			}
		}
	case Varlen:
		q, _, err := m.sequences(s)
		if err != nil {
			return nil, err
		}
		last = make([]int64, len(q))
		from := int64(0)
		for i, end := range q {
			last[i] = end - 1
			if end == from {
				last[i] = -1
			}
			from = end
		}
	case Dense:
		return nil, refuse(m, s, "its cells are in device memory", "use ops.LastTokens, which reads it, or describe the tokens with mask.Padding")
	}
	if m == nil {
		m = None{}
	}
	for b, i := range last {
		if i < 0 {
			return nil, refuse(m, s, fmt.Sprintf("item %d has no token", b), "leave it out of the batch")
		}
	}
	return last, nil
}

// ValidTokens returns the padding as [B, Skv] in row-major order, true where there is a token.
// Recurrent layers need it to clear padding even where attention does not.
func (m Padding) ValidTokens(s Shape) ([]bool, error) {
	if _, _, err := m.check(s); err != nil {
		return nil, err
	}
	valid := make([]bool, s.Batch*s.Keys)
	for i := range valid {
		valid[i] = m.valid(int64(i)/s.Keys, int64(i)%s.Keys, s.Keys)
	}
	return valid, nil
}
