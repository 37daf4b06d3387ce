package model

// Operations returns the operations of a training step on sequences of these lengths, as model FLOPs utilisation (MFU) counts them: for each
// token six for every weight that multiplies it, and those of attention, of which a token has the earlier ones to attend to. An adapter's
// frozen base has no gradients of weights, which spares a third of the products. What is computed again does not count.
func (c Config) Operations(lengths ...int64) (n float64) {
	weights := c.Parameters() - c.IdleParameters()
	if !c.TieWordEmbeddings || c.Score {
		weights -= c.VocabSize * c.HiddenSize // a row of it is looked up
	}
	passes := 3.0
	if c.Frozen {
		passes = 2
	}
	for _, length := range lengths {
		tokens := float64(length)
		n += passes * 2 * float64(weights) * tokens
		for i := range c.Layers {
			if c.linear(i) { // a token's key and value are added to a state, of which decay and query read it
				n += 3 * 6 * tokens * float64(c.LinearValueHeads*c.LinearKeyDim*c.LinearValueDim)
			} else { // two products for each pair of a token and one that it sees
				near := tokens
				if w := float64(c.window(i)); w > 0 {
					near = min(tokens, w)
				}
				n += 3 * 4 * (near*(near+1)/2 + (tokens-near)*near) * float64(c.Heads*c.HeadDim)
			}
		}
	}
	return n
}

// Sequences returns the lengths of a batch's sequences.
func (b Batch) Sequences() (lengths []int64) {
	switch {
	case b.CuSeqLens != nil:
		for i := range len(b.CuSeqLens) - 1 {
			lengths = append(lengths, b.CuSeqLens[i+1]-b.CuSeqLens[i])
		}
	case b.Lengths != nil:
		lengths = b.Lengths
	default:
		for range b.Size {
			lengths = append(lengths, int64(b.Length))
		}
	}
	return lengths
}
