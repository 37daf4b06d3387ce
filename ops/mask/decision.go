package mask

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/class"
)

// ErrRefused matches every error of this package: the mask cannot be used with the shape, or the
// device would compute something else. It matches acl.ErrInvalidArgument. The message gives the reason
// and the remedy.
var ErrRefused = class.Of(class.ErrInvalidArgument, "mask refused")

// Source says where the mask tensor of a call comes from.
type Source int

const (
	// Absent means no tensor; CANN then ignores mode and window.
	Absent Source = iota
	// Triangle is the compressed mask [2048,2048] with ones strictly above the diagonal. It serves
	// every sequence length and is shared by all calls on a device.
	Triangle
	// PrefixTriangle is the compressed mask for prefixes, [3072,2048].
	PrefixTriangle
	// Given is the tensor of a Dense mask, converted and expanded.
	Given
	// Built is a dense tensor that must be made from the pattern.
	Built
)

func (s Source) String() string {
	return [...]string{"no mask tensor", "triangle [2048,2048]", "prefix triangle [3072,2048]", "the given tensor", "a dense tensor"}[s]
}

// Sizes of the compressed masks.
const (
	TriangleSize = 2048
	PrefixRows   = 3072
)

// Decision says how FlashAttentionScore is called for a mask.
type Decision struct {
	SparseMode   aclnn.SparseMode
	Source       Source
	Shape        []int64            // of the dense tensor when Source is Given or Built
	Pre, Next    int64              // window; unlimited where the mode ignores it
	InnerPrecise aclnn.InnerPrecise // 2 zeroes rows that see no key, which otherwise get a mean
	Prefix       []int64            // per batch item or sequence; nil without prefixes
	// SeqQueries and SeqKeys are the cumulative ends of the sequences, without a leading 0; nil
	// outside TND.
	SeqQueries, SeqKeys []int64
	// Dense is the given mask when Source is Given.
	Dense  *Dense
	Reason string // why this way was chosen, as one clause

	mask  Mask
	shape Shape
}

// unlimited is a window that hides nothing.
const unlimited = math.MaxInt32

// repair is the innerPrecise value that zeroes rows without visible keys.
const repair = aclnn.InnerZeroHiddenRows

// String describes the decision in one line for logs and explanations.
func (d Decision) String() string {
	s := fmt.Sprintf("sparseMode %d, %v", d.SparseMode, d.Source)
	if d.Source == Given || d.Source == Built {
		s += fmt.Sprint(" ", d.Shape)
	}
	if d.Pre != unlimited || d.Next != unlimited {
		s += fmt.Sprintf(", window -%d..+%d", d.Pre, d.Next)
	}
	return s + ": " + d.Reason
}

// Decide returns how to call attention with a mask, or an ErrRefused that says why that is
// impossible. A nil mask means None.
func Decide(m Mask, s Shape) (Decision, error) {
	if m == nil {
		m = None{}
	}
	_, packed := m.(Varlen)
	switch {
	case s.Layout == TND && !packed:
		return Decision{}, refuse(m, s, "layout TND holds packed sequences", "wrap the mask: mask.Varlen{CuQueries: …, Within: …}")
	case s.Layout != TND && packed:
		return Decision{}, refuse(m, s, "sequences are packed in layout TND only", "use layout TND, or mask.Padding")
	}
	d, err := m.decide(s)
	if err != nil {
		return Decision{}, err
	}
	d.mask, d.shape = m, s
	return d, nil
}

func refuse(m Mask, s Shape, reason, remedy string) error {
	return fmt.Errorf("%w: %v for %v: %s; %s", ErrRefused, m, s, reason, remedy)
}

// open returns a decision with an unlimited window and no mask tensor.
func open(mode aclnn.SparseMode, source Source, reason string) Decision {
	return Decision{SparseMode: mode, Source: source, Pre: unlimited, Next: unlimited, Reason: reason}
}

func (None) decide(Shape) (Decision, error) {
	return open(aclnn.SparseDense, Absent, "full attention"), nil
}

// check refuses an anchor that is unknown, or left out where the corners differ.
func (a Anchor) check(m Mask, s Shape, queries, keys int64) error {
	switch {
	case a < 0 || a > BottomRight:
		return refuse(m, s, fmt.Sprintf("its anchor is %d", int(a)), "use mask.TopLeft or mask.BottomRight")
	case a == 0 && queries != keys:
		return refuse(m, s, fmt.Sprintf("there are %d queries and %d keys, and its Anchor is not given", queries, keys),
			"set it to mask.BottomRight if the last query sees the last key, as with a cache, or to mask.TopLeft")
	}
	return nil
}

func (m Causal) decide(s Shape) (Decision, error) {
	if err := m.Anchor.check(m, s, s.Queries, s.Keys); err != nil {
		return Decision{}, err
	}
	if m.Anchor != BottomRight {
		return open(aclnn.SparseCausal, Triangle, "causal from the top-left corner"), nil
	}
	d := open(aclnn.SparseCausalEnd, Triangle, "causal from the bottom-right corner")
	if s.Queries > s.Keys {
		d.InnerPrecise = repair
		d.Reason += "; the first queries see no key and give zeros"
	}
	return d, nil
}

// decide converts the window to the bottom-right corner, from which sparse mode 4 counts.
func (m Band) decide(s Shape) (Decision, error) {
	if err := m.Anchor.check(m, s, s.Queries, s.Keys); err != nil {
		return Decision{}, err
	}
	delta := s.Keys - s.Queries
	pre, next := m.Pre, m.Next // relative to the top left corner
	if m.Anchor == BottomRight {
		pre, next = m.Pre-delta, m.Next+delta
	}
	switch {
	case s.Queries == 0 || s.Keys == 0:
	case pre < 0 && next < 0, pre < 0 && (next < -pre || -pre >= s.Keys), next < 0 && (pre < -next || -next >= s.Queries):
		return Decision{}, refuse(m, s, "the window contains no cell of the score matrix", "widen Pre or Next")
	}
	d := Decision{SparseMode: aclnn.SparseBand, Source: Triangle, Pre: pre + delta, Next: next - delta, Reason: "window"}
	if pre < s.Queries-s.Keys || next < 0 {
		d.InnerPrecise = repair
		d.Reason += "; queries that see no key give zeros"
	}
	return d, nil
}

func (m Prefix) decide(s Shape) (Decision, error) {
	if int64(len(m.Lengths)) != s.Batch {
		return Decision{}, refuse(m, s, fmt.Sprintf("there are %d lengths", len(m.Lengths)), "give one per batch item")
	}
	for i, n := range m.Lengths {
		if err := m.check(s, i, n); err != nil {
			return Decision{}, err
		}
	}
	d := open(aclnn.SparsePrefixCompressed, PrefixTriangle, "causal with a prefix that all queries see")
	d.Prefix = m.Lengths
	if s.Queries > s.Keys {
		d.InnerPrecise = repair
	}
	return d, nil
}

// check refuses a prefix length outside the range that the device accepts.
func (m Prefix) check(s Shape, i int, n int64) error {
	if low := max(s.Keys-s.Queries, 0); n < low || n > s.Keys {
		return refuse(m, s, fmt.Sprintf("Lengths[%d] is %d", i, n), fmt.Sprintf("it must be from %d to %d", low, s.Keys))
	}
	return nil
}

func (m Padding) decide(s Shape) (Decision, error) {
	full, right, err := m.check(s)
	switch {
	case err != nil:
		return Decision{}, err
	case m.Causal && s.Queries != s.Keys:
		return Decision{}, refuse(m, s, "a causal rule with padding needs as many queries as keys", "use mask.Varlen with layout TND, or mask.Dense")
	case full && m.Causal:
		return open(aclnn.SparseCausal, Triangle, "nothing is padded; causal"), nil
	case full:
		return open(aclnn.SparseDense, Absent, "nothing is padded"), nil
	case m.Causal && right && !m.Exact:
		return open(aclnn.SparseCausal, Triangle, "right padding: under a causal rule no valid query sees a padding key"), nil
	}
	d := open(aclnn.SparseAll, Built, "padding keys are hidden cell by cell")
	d.Shape = []int64{s.Batch, 1, s.Queries, s.Keys}
	d.InnerPrecise = repair
	return d, nil
}

// check reports whether nothing is padded and whether all padding is on the right.
func (m Padding) check(s Shape) (full, right bool, err error) {
	full, right = true, true
	switch {
	case (m.Lengths == nil) == (m.Valid == nil):
		return false, false, refuse(m, s, "it has neither or both of Lengths and Valid", "give one of them")
	case m.Lengths != nil && int64(len(m.Lengths)) != s.Batch:
		return false, false, refuse(m, s, fmt.Sprintf("there are %d lengths", len(m.Lengths)), "give one per batch item")
	case m.Valid != nil && int64(len(m.Valid)) != s.Batch*s.Keys:
		return false, false, refuse(m, s, fmt.Sprintf("Valid has %d elements", len(m.Valid)), fmt.Sprintf("give [%d,%d]", s.Batch, s.Keys))
	}
	for i, n := range m.Lengths {
		if n < 0 || n > s.Keys {
			return false, false, refuse(m, s, fmt.Sprintf("Lengths[%d] is %d", i, n), fmt.Sprintf("it must be from 0 to %d", s.Keys))
		}
		full = full && n == s.Keys
	}
	for j, valid := range m.Valid {
		full = full && valid
		// A token after padding in the same row.
		if valid && j%int(s.Keys) > 0 && !m.Valid[j-1] {
			right = false
		}
	}
	return full, right, nil
}

// valid reports whether key j of batch item b is a token.
func (m Padding) valid(b, j, keys int64) bool {
	if m.Lengths != nil {
		return j < m.Lengths[b]
	}
	return m.Valid[b*keys+j]
}

func (m Dense) decide(s Shape) (Decision, error) {
	if err := m.check(s); err != nil {
		return Decision{}, err
	}
	shape, err := m.expand(s)
	if err != nil {
		return Decision{}, err
	}
	if m.CausalRightPadded {
		if s.Queries != s.Keys {
			return Decision{}, refuse(m, s, "CausalRightPadded needs as many queries as keys", "leave it out to use the mask as it is")
		}
		return open(aclnn.SparseCausal, Triangle, "the dense mask is causal with right padding: the compressed mask gives the same on valid rows"), nil
	}
	d := open(aclnn.SparseAll, Given, "dense mask, "+m.Meaning.String())
	d.Shape, d.Dense, d.InnerPrecise = shape, &m, repair
	return d, nil
}

// check refuses dtypes that do not fit the Meaning.
func (m Dense) check(s Shape) error {
	t := m.Tensor
	switch {
	case t == nil:
		return refuse(m, s, "it has no tensor", "set Tensor, or use another kind of mask")
	case t.Err() != nil:
		return refuse(m, s, t.Err().Error(), "fix the view")
	case m.Meaning == 0:
		return refuse(m, s, "its Meaning is not given", "set it to mask.Hidden if nonzero hides a key, as in CANN, to mask.Visible if nonzero shows it, as in PyTorch, or to mask.Additive")
	case m.Meaning < Hidden || m.Meaning > Additive:
		return refuse(m, s, "the meaning is unknown", "use Hidden, Visible or Additive")
	case m.Meaning == Additive && !t.DType().IsFloat():
		return refuse(m, s, "an additive mask is floating-point", "use the meaning Hidden or Visible")
	case m.Meaning != Additive && t.DType().IsFloat():
		return refuse(m, s, "a floating-point mask is additive", "use the meaning Additive")
	}
	return nil
}

// expand returns the shape that the device accepts for the given one.
func (m Dense) expand(s Shape) ([]int64, error) {
	got := m.Tensor.Shape()
	cells := []int64{s.Queries, s.Keys}
	if slices.Equal(got, cells) {
		if s.Layout != TND && s.Batch > 1 && s.Batch == s.Queries {
			return nil, refuse(m, s, "[Sq,Skv] and a padding mask [B,Skv] have the same shape here",
				"say which: view it as [1,1,Sq,Skv], or use mask.Padding")
		}
		return cells, nil
	}
	if s.Layout == TND {
		return nil, refuse(m, s, "it is not [longest Sq, longest Skv]", fmt.Sprintf("it must be [%d,%d]", s.Queries, s.Keys))
	}
	if len(got) == 4 && got[3] == s.Keys && (got[2] == s.Queries || got[2] == 1) {
		batch, heads := got[0], got[1]
		switch {
		case batch == s.Batch && heads == s.Heads, batch == s.Batch && heads == 1, batch == 1 && heads == 1:
			return []int64{batch, heads, s.Queries, s.Keys}, nil
		}
	}
	return nil, refuse(m, s, "the device takes [Sq,Skv], [1,1,Sq,Skv], [B,1,Sq,Skv] and [B,N,Sq,Skv]",
		"expand the mask to one of them, or use mask.Padding for a mask of keys")
}
