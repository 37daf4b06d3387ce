package mask

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
)

// Mask is one of the types of this package: None, Causal, Band, Prefix, Padding, Dense or
// Varlen. A nil Mask is None.
type Mask interface {
	fmt.Stringer
	// decide implements Decide for this mask type.
	decide(s Shape) (Decision, error)
	// pattern returns the visible cells, for masks that the host knows.
	pattern(s Shape) Pattern
}

// Layout is the order of dimensions of query, key, value and output, named as in CANN.
type Layout string

// The layouts. B is batch, S sequence, N heads, D head dimension, H = N·D, and T all tokens of
// packed sequences.
const (
	BSH  Layout = "BSH"
	SBH  Layout = "SBH"
	BSND Layout = "BSND"
	BNSD Layout = "BNSD"
	TND  Layout = "TND"
)

// SequenceAxis returns the axis of tokens.
func (l Layout) SequenceAxis() int {
	switch l {
	case BNSD:
		return 2
	case SBH, TND:
		return 0
	}
	return 1
}

// Shape holds the sizes that a decision depends on besides the mask.
type Shape struct {
	Layout  Layout
	Batch   int64 // 1 in TND, where Varlen defines the sequences
	Heads   int64 // of the query
	Queries int64 // Sq, or all query tokens in TND
	Keys    int64 // Skv, or all key tokens in TND
}

func (s Shape) String() string {
	return fmt.Sprintf("%s with B=%d, N=%d, Sq=%d, Skv=%d", s.Layout, s.Batch, s.Heads, s.Queries, s.Keys)
}

// Anchor says which corner of the score matrix a mask is aligned to. The corners differ when there
// are more keys than queries, as with a cache: then the zero Anchor is refused, and one of these must
// be named. With as many queries as keys both mean the same, and the zero Anchor is right.
type Anchor int

const (
	// TopLeft aligns the first query with the first key, as PyTorch's is_causal does.
	TopLeft Anchor = iota + 1
	// BottomRight aligns the last query with the last key, as flash-attention does.
	BottomRight
)

func (a Anchor) String() string {
	switch a {
	case 0:
		return "at either corner"
	case TopLeft:
		return "top-left"
	case BottomRight:
		return "bottom-right"
	}
	return fmt.Sprintf("anchor %d", int(a))
}

// None hides nothing: every query sees every key.
type None struct{}

func (None) String() string { return "none" }

// Causal hides later keys: a query sees the keys up to its own position, counted from the anchor.
type Causal struct{ Anchor Anchor }

func (m Causal) String() string { return "causal " + m.Anchor.String() }

// Band is a sliding window around a query's position: Pre keys before it, the key at it, and Next
// keys after it. A causal window of W keys is Band{Pre: W − 1}. A negative value moves that end of
// the window past the position.
type Band struct {
	Pre, Next int64
	Anchor    Anchor
}

func (m Band) String() string { return fmt.Sprintf("band -%d..+%d %v", m.Pre, m.Next, m.Anchor) }

// Prefix is causal from the bottom-right corner, except that the first keys are visible to all
// queries.
type Prefix struct {
	Lengths []int64 // number of keys visible to all queries, one per batch item or sequence
}

func (m Prefix) String() string { return fmt.Sprintf("prefix of %d sequences", len(m.Lengths)) }

// Padding hides padding keys. Set either Lengths or Valid; both are in host memory.
type Padding struct {
	Lengths []int64 // number of valid keys of each batch item, which come first
	Valid   []bool  // [B, Skv] in row-major order: true where there is a token
	Causal  bool    // hides later keys as well; needs as many queries as keys
	// Exact computes the rows of padding queries as the mask says. Without it they are unspecified
	// where that avoids a dense mask: the rows of valid queries do not change, nor do gradients if
	// the gradient of padding rows is zero.
	Exact bool
}

func (m Padding) String() string {
	s := "padding"
	if m.Causal {
		s = "causal padding"
	}
	if m.Exact {
		s = "exact " + s
	}
	return s
}

// Meaning says how the elements of a dense mask are interpreted. The zero Meaning is refused, because
// frameworks differ and the wrong one computes wrong numbers without an error.
type Meaning int

const (
	// Hidden: nonzero hides the key, as CANN has it. Any bool or integer dtype.
	Hidden Meaning = iota + 1
	// Visible: nonzero shows the key, as PyTorch's boolean masks have it. Any bool or integer dtype.
	Visible
	// Additive is a floating-point tensor that is added to the scores; negative values hide. It
	// must hold only 0 and large negative values: finite biases belong in the bias of attention.
	Additive
)

func (m Meaning) String() string {
	if m < Hidden || m > Additive {
		return "of unknown meaning"
	}
	return [...]string{Hidden: "hidden", Visible: "visible", Additive: "additive"}[m]
}

// Dense is a mask of cells in device memory: [Sq,Skv], [1,1,Sq,Skv], [B,1,Sq,Skv] or [B,N,Sq,Skv];
// [B,1,1,Skv] and [1,1,1,Skv] are expanded. In TND it is [longest Sq, longest Skv], and every
// sequence uses the upper left corner.
type Dense struct {
	Tensor  *aclnn.Tensor
	Meaning Meaning // must be given
	// CausalRightPadded says that the mask is the causal one with padding, if any, on the
	// right, so that attention may use the device's compressed causal mask instead. Rows of
	// padding queries are then unspecified.
	CausalRightPadded bool
}

func (m Dense) String() string { return fmt.Sprintf("dense %v %v", m.Meaning, m.Tensor) }

// Varlen is the mask of packed sequences (layout TND): tokens see only their own sequence, and
// within it the keys that Within shows.
type Varlen struct {
	// CuQueries and CuKeys are the cumulative ends of the sequences, with or without a leading 0:
	// lengths 2, 3 are {2, 5} or {0, 2, 5}. Nil CuKeys means CuQueries.
	CuQueries, CuKeys []int64
	// Within is None, Causal, Band, Prefix or Dense; nil is None.
	Within Mask
}

func (m Varlen) String() string {
	within := Mask(None{})
	if m.Within != nil {
		within = m.Within
	}
	return fmt.Sprintf("%v in %d sequences", within, len(ends(m.CuQueries)))
}

// Len returns the number of sequences.
func (m Varlen) Len() int64 { return int64(len(ends(m.CuQueries))) }

// ends drops the leading zero of cumulative lengths.
func ends(cu []int64) []int64 {
	if len(cu) > 0 && cu[0] == 0 {
		return cu[1:]
	}
	return cu
}

// CuSeqLens returns the cumulative lengths of sequences, with a leading 0.
func CuSeqLens(lengths []int64) []int64 {
	cu := make([]int64, len(lengths)+1)
	for i, n := range lengths {
		cu[i+1] = cu[i] + n
	}
	return cu
}
