package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/examples/expression"
)

// LoRA holds the options of an adapter, with the names and meaning that they have in PEFT.
type LoRA struct {
	Rank  int     // of the products
	Alpha float64 // the products are scaled by Alpha/Rank
	// Targets are names of layers, whole or their ends ("q_proj", "self_attn.q_proj"), or AllLinear
	// alone, which is every linear layer but the output head and routers. Pattern, in place of them,
	// is a regular expression for whole names. Layers that Exclude selects likewise get no product.
	Targets []string
	// Parameters are names of stacked weights of experts, whole or their ends ("mlp.experts.down_proj"), which
	// get a product for each expert (PEFT's target_parameters). Exclude and Layers do not apply to them.
	Parameters     []string
	Pattern        string
	Exclude        []string
	ExcludePattern string
	Layers         []int // if not nil, only layers with these numbers
	// Ranks and Alphas have other values for layers whose names end with a match of an expression; the first that
	// matches counts.
	Ranks, Alphas Overrides
	RSLoRA        bool // scale by Alpha/√Rank instead
	// Dropout is the probability with which an element of the input of A is zero in training.
	Dropout float64

	modules map[string]bool // of a folder that was loaded: the layers that have weights in it, in place of Targets
}

// Override gives the layers whose names end with a match of an expression another value.
type Override struct {
	Layers string
	Value  float64
}

// Overrides are in JSON an object whose members stand in their order, as PEFT writes rank_pattern and alpha_pattern.
type Overrides []Override

// UnmarshalJSON implements json.Unmarshaler.
func (o *Overrides) UnmarshalJSON(text []byte) error {
	var all map[string]float64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*o = nil
	d := json.NewDecoder(bytes.NewReader(text))
	for range 2*len(all) + 1 { // the brace, and names with their values
		token, err := d.Token()
		if err != nil {
			return err
		}
		if name, ok := token.(string); ok {
			*o = append(*o, Override{name, all[name]})
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o Overrides) MarshalJSON() ([]byte, error) {
	text := []byte("{")
	for i, one := range o {
		member, err := json.Marshal(map[string]float64{one.Layers: one.Value})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, member[1:len(member)-1]...)
	}
	return append(text, '}'), nil
}

// AllLinear as the only target stands for every linear layer but the output head and routers.
const AllLinear = "all-linear"

// target is the size of an adapter on one layer: the rank of its product and the factor of the sum.
type target struct {
	rank  int
	scale float64
}

// targets selects layers by name.
type targets struct {
	lora        LoRA
	expressions *expression.Set
	used        map[string]bool // of Targets
	count       int
	err         error // of an expression
}

func (l LoRA) compile() (t *targets, err error) {
	switch {
	case l.Rank < 1:
		return nil, fmt.Errorf("model: LoRA has rank %d; it must be positive", l.Rank)
	case !(l.Dropout >= 0 && l.Dropout < 1):
		return nil, fmt.Errorf("model: LoRA has dropout %g; it must be from 0 to below 1", l.Dropout)
	case len(l.Parameters) > 0 && l.Dropout > 0:
		return nil, errors.New("model: LoRA of experts' weights has no dropout, as PEFT's has none")
	case l.modules == nil && (l.Targets != nil && l.Pattern != "" || l.Targets == nil && l.Pattern == "" && len(l.Parameters) == 0):
		return nil, errors.New("model: LoRA needs targets: names of layers, all-linear, or else a pattern")
	case l.modules == nil && l.Layers != nil && l.Pattern != "":
		return nil, errors.New("model: LoRA has a pattern and numbers of layers; PEFT refuses the two together: write the numbers into the pattern")
	}
	t = &targets{lora: l, expressions: expression.New("the adapter"), used: map[string]bool{}}
	if l.modules == nil {
		t.whole(l.Pattern, "")
		t.whole(l.ExcludePattern, "")
	}
	for _, o := range slices.Concat(l.Ranks, l.Alphas) { // those that no layer gets to are read too
		t.matches(t.expressions.Ends, o.Layers, "")
	}
	if t.err != nil {
		return nil, t.err
	}
	for _, r := range l.Ranks {
		if !(r.Value >= 1) || r.Value != math.Trunc(r.Value) {
			return nil, fmt.Errorf("model: LoRA: rank %g; it must be positive, and whole", r.Value)
		}
	}
	return t, nil
}

// pick returns the value of the first expression that matches.
func (t *targets) pick(list Overrides, name string, otherwise float64) float64 {
	for _, o := range list {
		if t.matches(t.expressions.Ends, o.Layers, name) {
			return o.Value
		}
	}
	return otherwise
}

// of returns what the adapter adds to the layer of a weight.
func (t *targets) of(q *Parameter) (target, bool) {
	name := q.module()
	switch {
	case !q.linear:
		return target{}, false
	case t.lora.modules != nil:
		if !t.lora.modules[name] {
			return target{}, false
		}
	case t.excludes(name) || !t.selects(name):
		return target{}, false
	}
	return t.size(name), true
}

// ofExperts is the same for a stacked weight of experts. PEFT wraps the module of the experts once for each
// weight, so the name of the first one, if there are two, has a base_layer in it.
func (t *targets) ofExperts(q *Parameter) (size target, module string, ok bool) {
	if !q.expert || !t.selectsParameter(q.Name) {
		return target{}, "", false
	}
	module, name := q.Name[:strings.LastIndexByte(q.Name, '.')], q.Name[strings.LastIndexByte(q.Name, '.')+1:]
	if name == "gate_up_proj" && t.selectsParameter(module+".down_proj") {
		module += ".base_layer"
	}
	return t.size(q.Name), module, true
}

func (t *targets) selectsParameter(name string) bool {
	found := false
	for _, one := range t.lora.Parameters {
		if ends(name, one) {
			t.used[one], found = true, true
		}
	}
	return found
}

// size counts a layer and returns the size of its product.
func (t *targets) size(name string) target {
	t.count++
	rank, alpha := t.pick(t.lora.Ranks, name, float64(t.lora.Rank)), t.pick(t.lora.Alphas, name, t.lora.Alpha)
	if t.lora.RSLoRA {
		return target{int(rank), alpha / math.Sqrt(rank)}
	}
	return target{int(rank), alpha / rank}
}

// selects applies Targets, or Pattern. Layers holds for names that are given by their end, as in PEFT.
func (t *targets) selects(name string) bool {
	if t.lora.Pattern != "" {
		return t.whole(t.lora.Pattern, name)
	}
	if len(t.lora.Targets) == 1 && t.lora.Targets[0] == AllLinear {
		t.used[AllLinear] = true
		return name != "lm_head" && t.inLayer(name)
	}
	found, whole := false, false
	for _, one := range t.lora.Targets {
		if ends(name, one) {
			t.used[one], found, whole = true, true, whole || name == one
		}
	}
	return found && (whole || t.inLayer(name))
}

func (t *targets) excludes(name string) bool {
	return t.whole(t.lora.ExcludePattern, name) || slices.ContainsFunc(t.lora.Exclude, func(one string) bool { return ends(name, one) })
}

// ends reports whether a name is the end of a layer's, from a dot on, or all of it.
func ends(layer, name string) bool { return layer == name || strings.HasSuffix(layer, "."+name) }

// whole reports whether a pattern matches a whole name; none matches nothing.
func (t *targets) whole(pattern, name string) bool {
	return pattern != "" && t.matches(t.expressions.Whole, pattern, name)
}

// matches also tries the name that a layer has in a model that sees images. After an error nothing matches.
func (t *targets) matches(match func(pattern, name string) (bool, error), pattern, name string) bool {
	if t.err != nil {
		return false
	}
	names := []string{name}
	if rest, inner := strings.CutPrefix(name, "model."); inner {
		names = append(names, nestedPrefix+rest)
	}
	for _, one := range names {
		ok, err := match(pattern, one)
		if err != nil {
			t.err = fmt.Errorf("model: LoRA: %w", err)
		}
		if ok || err != nil {
			return ok
		}
	}
	return false
}

// inLayer reports whether Layers has the number in a name.
func (t *targets) inLayer(name string) bool {
	if t.lora.Layers == nil {
		return true
	}
	rest, ok := strings.CutPrefix(name, "model.layers.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return ok && err == nil && slices.Contains(t.lora.Layers, n)
}

// unused refuses targets that no layer of the whole model has. A stage of a pipeline may lack
// layers of some kind, so there nothing is known.
func (t *targets) unused(m *Model) error {
	if _, stages := m.par.stage(); stages > 1 || t.err != nil {
		return t.err
	}
	for _, one := range t.lora.Targets {
		if !t.used[one] && t.lora.modules == nil {
			return fmt.Errorf("model: LoRA target %.200q is not a linear layer of this model; it has %s", one, strings.Join(m.linears(), ", "))
		}
	}
	for _, one := range t.lora.Parameters {
		switch {
		case t.used[one]:
		case m.Config.family().clipped:
			return fmt.Errorf("model: LoRA target %.200q: adapters of the experts of %s are not supported, whose weights are [experts, in, out] with biases; adapt its attention", one, m.Config.ModelType)
		case m.Config.Experts == 0:
			return fmt.Errorf("model: LoRA target %.200q is a weight of experts, and this model has none", one)
		default:
			return fmt.Errorf("model: LoRA target %.200q is not a stacked weight of experts of this model; it has mlp.experts.gate_up_proj and mlp.experts.down_proj", one)
		}
	}
	if t.count == 0 {
		return errors.New("model: LoRA selects no layer of this model")
	}
	return nil
}

// linears lists the last parts of the names of the linear layers.
func (m *Model) linears() (names []string) {
	for _, q := range m.params.all {
		module := q.module()
		if name := module[strings.LastIndexByte(module, '.')+1:]; q.linear && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
