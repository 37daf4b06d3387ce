package tokenizer

import (
	"cmp"
	"fmt"

	"github.com/goascend/cann/examples/budget"
)

// pairPart is a part of two texts that are encoded together: special tokens, or one of the texts.
type pairPart struct {
	ids  []int32
	text int   // 1 or 2; 0 for special tokens
	kind int32 // type of the tokens
}

// plainPair is the second text behind the first.
var plainPair = []pairPart{{text: 1}, {text: 2, kind: 1}}

// EncodePair gives the ids of two texts with the tokens that the post-processor puts around a pair, and the types of all of them, as encoders such
// as BERT read them: with most post-processors 0 for the first text and 1 for the second. The error of texts with more tokens than most matches ErrLength. That of a
// tokenizer that does not say how a pair is encoded matches ErrUnsupported.
func (t *Tokenizer) EncodePair(first, second string, most int) (ids, types []int32, err error) {
	if t.pair == nil {
		return nil, nil, cmp.Or(t.noPair, fmt.Errorf("tokenizer: %w: a model of SentencePiece does not say how a pair of texts is encoded", ErrUnsupported))
	}
	room := most
	for _, p := range t.pair {
		room -= len(p.ids)
	}
	var texts [2][]int32
	for i, text := range []string{first, second} {
		if texts[i], err = t.encode(nil, text, room); err != nil {
			return nil, nil, err
		}
		room -= len(texts[i])
	}
	for _, p := range t.pair {
		part := p.ids
		if p.text > 0 {
			part = texts[p.text-1]
		}
		ids = append(ids, part...)
		for range part {
			types = append(types, p.kind)
		}
	}
	return ids, types, nil
}

// pair says how two texts are encoded together.
func (p *processor) pair() ([]pairPart, error) {
	if p == nil {
		return plainPair, nil
	}
	before, behind := []int32{p.Before.id}, []int32{p.Behind.id}
	switch p.Type {
	case "ByteLevel":
		return plainPair, nil
	case "BertProcessing":
		return []pairPart{{ids: before}, {text: 1}, {ids: behind}, {text: 2, kind: 1}, {ids: behind, kind: 1}}, nil
	case "RobertaProcessing":
		return []pairPart{{ids: before}, {text: 1}, {ids: append(behind, behind...)}, {text: 2}, {ids: behind}}, nil
	case "Sequence":
		parts, some := plainPair, false
		for i := range p.Processors {
			one := &p.Processors[i]
			if one.Type == "ByteLevel" {
				continue
			}
			if some {
				return nil, fmt.Errorf("several post-processors for a pair of texts")
			}
			var err error
			if parts, err = one.pair(); err != nil {
				return nil, err
			}
			some = true
		}
		return parts, nil
	}
	return p.pairTemplate()
}

// pairTemplate reads the template of a TemplateProcessing.
func (p *processor) pairTemplate() (parts []pairPart, err error) {
	if p.Pair == nil {
		return plainPair, nil
	}
	texts, tokens := [3]int{}, 0
	for _, part := range p.Pair {
		switch {
		case part.Special != nil && part.Sequence == nil:
			special, ok := p.SpecialTokens[part.Special.ID]
			if !ok {
				return nil, fmt.Errorf("the template for a pair names token %.100q, which special_tokens lacks", part.Special.ID)
			}
			tokens += len(special.IDs)
			if err := budget.Size("a post-processor", tokens, mostAround, "tokens"); err != nil {
				return nil, err
			}
			parts = append(parts, pairPart{ids: special.IDs, kind: part.Special.Type})
		case part.Sequence != nil && part.Special == nil && (part.Sequence.ID == "A" || part.Sequence.ID == "B"):
			text := int(part.Sequence.ID[0]-'A') + 1
			texts[text]++
			parts = append(parts, pairPart{text: text, kind: part.Sequence.Type})
		default:
			return nil, fmt.Errorf("the template for a pair has something beside tokens and the Sequences A and B")
		}
	}
	if texts[1] != 1 || texts[2] != 1 {
		return nil, fmt.Errorf("the template for a pair has %d Sequences A and %d Sequences B; each must stand once", texts[1], texts[2])
	}
	return parts, nil
}
