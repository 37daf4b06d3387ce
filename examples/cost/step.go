package cost

import (
	"fmt"

	"github.com/goascend/cann/examples/model"
)

// Format says in which form the products of experts get their gathered weights.
type Format string

// The forms.
const (
	// ND weights are copied out of the gathered shards as they are.
	ND Format = "nd"
	// Transposed is ND in which the products' gradient of a weight is the transpose of what is stored,
	// and is transposed by a copy. Trainers that keep PyTorch's [out, in] may do so; this module's
	// does not, as it exchanges the factors of the product instead.
	Transposed Format = "nd, gradients transposed"
	// NZ weights are brought into FRACTAL_NZ by the operator that copies them out.
	NZ Format = "nz"
	// Cast weights are copied out and brought into FRACTAL_NZ by a second operator.
	Cast Format = "nz by a cast"
)

// Formats lists the forms.
func Formats() []Format { return []Format{ND, Transposed, NZ, Cast} }

// Run is a training whose weights are sharded over all devices and gathered by layers, once in the
// forward and once in the backward pass.
type Run struct {
	Config       model.Config
	Devices      int
	Tokens       int // of a device in a step
	ElementBytes int // of weights, activations and gradients
	Format       Format
	// Slowdown is how much longer a product takes that reads the weights of experts in ND, as a part
	// of its time. No source gives it, and it is not a property of the bytes; 0 if nothing is known.
	Slowdown float64
}

// Step is an estimate for one device.
type Step struct {
	Tokens int
	Terms  []Term
}

// Term is a part of a step.
type Term struct {
	Name    string
	Bytes   float64 // that pass over memory, or for Exchange over the link
	Seconds float64
}

// Names of terms.
const (
	Products  = "products"
	CopyOut   = "weights copied out of gathered shards"
	CastOver  = "weights cast to FRACTAL_NZ"
	Transpose = "gradients of experts transposed"
	CopyIn    = "gradients copied to the places of shards"
	Routing   = "rows of experts: permutation and activation"
	Optimiser = "optimiser"
	Exchange  = "exchange that products do not hide"
)

// gathers is how often each weight is gathered in a step.
const gathers = 2

// optimiserBytes counts the bytes that AdamW reads and writes for a weight: master and two moments in float32, both
// ways, and the gradient.
const optimiserBytes = 7 * 4

// On estimates a step on a chip.
func (r Run) On(c Chip) (Step, error) {
	if r.Devices < 1 || r.Tokens < 1 || r.ElementBytes < 1 || r.Slowdown < 0 {
		return Step{}, fmt.Errorf("cost: %d devices, %d tokens of %d bytes and slowdown %g; all must be positive", r.Devices, r.Tokens, r.ElementBytes, r.Slowdown)
	}
	if !(c.Peak > 0 && c.Efficiency > 0 && c.Memory > 0 && c.Link > 0) {
		return Step{}, fmt.Errorf("cost: chip %+v; all of its numbers must be positive", c)
	}
	s := Step{Tokens: r.Tokens}
	weights, experts := r.bytes(r.Config.Parameters()), r.bytes(r.Config.ExpertParameters())
	s.Terms = append(s.Terms, Term{Name: Products, Seconds: r.products() / (c.Peak * c.Efficiency)})
	over := func(name string, bytes float64) {
		s.Terms = append(s.Terms, Term{name, bytes, bytes / c.Memory})
	}
	gathered := gathers*weights - r.bytes(r.table()) // only the forward pass looks up rows
	over(CopyOut, 2*gathered)
	switch r.Format {
	case Cast:
		over(CastOver, gathers*2*experts)
	case Transposed:
		over(Transpose, 2*experts)
	}
	over(CopyIn, 2*weights)
	over(Routing, r.routing())
	over(Optimiser, optimiserBytes*float64(r.Config.Parameters())/float64(r.Devices))
	// Weights come in, and gradients go out once.
	exchanged := (gathered + weights) * float64(r.Devices-1) / float64(r.Devices)
	s.Terms = append(s.Terms, Term{Exchange, exchanged, max(0, exchanged/c.Link-s.Terms[0].Seconds)})
	return s, nil
}

// table is the number of weights of which only rows are looked up.
func (r Run) table() int {
	if r.Config.TieWordEmbeddings {
		return 0
	}
	return r.Config.VocabSize * r.Config.HiddenSize
}

func (r Run) bytes(elements int) float64 { return float64(elements) * float64(r.ElementBytes) }

// products counts operations: six for each weight that multiplies a token. Of those of experts, the product
// of the forward pass and that of the gradient of its input read a weight, the third does not.
func (r Run) products() float64 {
	c := r.Config
	n := 6 * float64(c.Parameters()-c.IdleParameters()-r.table())
	if r.Format == ND || r.Format == Transposed {
		n += r.Slowdown * 4 * float64(c.ExpertParameters()-c.IdleParameters())
	}
	return n * float64(r.Tokens)
}

// routing counts what passes over memory beside the products of experts: rows are permuted and come back, in
// both directions, and SwiGLU reads two halves and writes one, and five in the backward pass.
func (r Run) routing() float64 {
	c, layers := r.Config, 0
	if c.Experts > 0 {
		layers = c.ExpertParameters() / (c.Experts * 3 * c.ExpertSize() * c.HiddenSize)
	}
	permuted := 4 * (c.ExpertsPerToken + 1) * c.HiddenSize
	activated := 8 * c.ExpertsPerToken * c.ExpertSize()
	return r.bytes(layers*(permuted+activated)) * float64(r.Tokens)
}

// Seconds is the time of the step.
func (s Step) Seconds() (sum float64) {
	for _, t := range s.Terms {
		sum += t.Seconds
	}
	return sum
}

// TokensPerSecond returns the tokens that one device trains on in a second.
func (s Step) TokensPerSecond() float64 { return float64(s.Tokens) / s.Seconds() }

// Term returns a term by its name; it is zero if the step has none.
func (s Step) Term(name string) Term {
	for _, t := range s.Terms {
		if t.Name == name {
			return t
		}
	}
	return Term{Name: name}
}

// Explain returns the slowdown of products with ND weights that would make this run take times as long as
// another one without: what of a measured difference bytes do not explain.
func (r Run) Explain(c Chip, other Step, times float64) (float64, error) {
	r.Slowdown = 0
	none, err := r.On(c)
	if err != nil {
		return 0, err
	}
	r.Slowdown = 1
	twice, err := r.On(c)
	if err != nil {
		return 0, err
	}
	whole := twice.Term(Products).Seconds - none.Term(Products).Seconds
	if whole == 0 {
		return 0, fmt.Errorf("cost: %s: no product reads the weights of experts in ND", r.Format)
	}
	return (times*other.Seconds() - none.Seconds()) / whole, nil
}
