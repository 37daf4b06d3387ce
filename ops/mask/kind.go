package mask

// Kind classifies masks without their lengths and tensors, so that an attention kernel can say
// which kinds it supports.
type Kind uint8

// The kinds. Anchors matter only where there are more keys than queries.
const (
	KindNone Kind = iota
	KindCausal
	KindCausalBottomRight
	KindBand
	KindBandBottomRight
	KindPrefix
	KindPadding
	KindCausalPadding
	KindDense
)

// String returns the name of the kind.
func (k Kind) String() string {
	names := [...]string{"none", "causal", "causal bottom-right", "band", "band bottom-right", "prefix", "padding", "causal padding", "dense"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// KindOf returns the kind of a mask; for Varlen it is the kind of the mask within the sequences. A
// nil mask means None.
func KindOf(m Mask) Kind {
	switch m := m.(type) {
	case Causal:
		return anchored(KindCausal, m.Anchor)
	case Band:
		return anchored(KindBand, m.Anchor)
	case Prefix:
		return KindPrefix
	case Padding:
		if m.Causal {
			return KindCausalPadding
		}
		return KindPadding
	case Dense:
		return KindDense
	case Varlen:
		return KindOf(m.Within)
	}
	return KindNone
}

// anchored returns k, or for the bottom-right corner the constant after it.
func anchored(k Kind, a Anchor) Kind {
	if a == BottomRight {
		k++
	}
	return k
}
