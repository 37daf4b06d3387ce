package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	// Ranks and Alphas have other values for layers whose names end with a match of an expression.
	Ranks  map[string]int
	Alphas map[string]float64
	RSLoRA bool // scale by Alpha/√Rank instead
	// Dropout is the probability with which an element of the input of A is zero in training.
	Dropout float64
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
	lora            LoRA
	pattern, except *regexp.Regexp
	ranks, alphas   []override
	used            map[string]bool // of Targets
	count           int
}

// override is an entry of Ranks or Alphas.
type override struct {
	name  *regexp.Regexp
	value float64
}

func (l LoRA) compile() (t *targets, err error) {
	switch {
	case l.Rank < 1:
		return nil, fmt.Errorf("model: LoRA has rank %d; it must be positive", l.Rank)
	case !(l.Dropout >= 0 && l.Dropout < 1):
		return nil, fmt.Errorf("model: LoRA has dropout %g; it must be from 0 to below 1", l.Dropout)
	case len(l.Parameters) > 0 && l.Dropout > 0:
		return nil, errors.New("model: LoRA of experts' weights has no dropout, as PEFT's has none")
	case l.Targets != nil && l.Pattern != "" || l.Targets == nil && l.Pattern == "" && len(l.Parameters) == 0:
		return nil, errors.New("model: LoRA needs targets: names of layers, all-linear, or else a pattern")
	}
	t = &targets{lora: l, used: map[string]bool{}}
	whole := func(pattern string) (r *regexp.Regexp, err error) {
		if pattern == "" {
			return nil, nil
		}
		return regexp.Compile(`\A(?:` + pattern + `)\z`)
	}
	if t.pattern, err = whole(l.Pattern); err == nil {
		t.except, err = whole(l.ExcludePattern)
	}
	if err == nil {
		t.ranks, err = overrides(l.Ranks)
	}
	if err == nil {
		t.alphas, err = overrides(l.Alphas)
	}
	for _, r := range t.ranks {
		if r.value < 1 {
			err = fmt.Errorf("rank %g; it must be positive", r.value)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("model: LoRA: %w", err)
	}
	return t, nil
}

// overrides compiles expressions; of those that match a layer the longest counts.
func overrides[T int | float64](values map[string]T) (list []override, err error) {
	longest := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) }
	for _, pattern := range slices.SortedFunc(maps.Keys(values), longest) {
		name, err := regexp.Compile(`\A(?:.*\.)?(?:` + pattern + `)\z`)
		if err != nil {
			return nil, err
		}
		list = append(list, override{name, float64(values[pattern])})
	}
	return list, nil
}

func pick(list []override, name string, otherwise float64) float64 {
	for _, o := range list {
		if o.name.MatchString(name) {
			return o.value
		}
	}
	return otherwise
}

// of returns what the adapter adds to the layer of a weight.
func (t *targets) of(q *Parameter) (target, bool) {
	name := q.module()
	if !q.linear || !t.selects(name) || t.excludes(name) || !t.inLayer(name) {
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
	rank, alpha := pick(t.ranks, name, float64(t.lora.Rank)), pick(t.alphas, name, t.lora.Alpha)
	if t.lora.RSLoRA {
		return target{int(rank), alpha / math.Sqrt(rank)}
	}
	return target{int(rank), alpha / rank}
}

func (t *targets) selects(name string) bool {
	if t.pattern != nil {
		return matches(t.pattern, name)
	}
	if len(t.lora.Targets) == 1 && t.lora.Targets[0] == AllLinear {
		t.used[AllLinear] = true
		return name != "lm_head"
	}
	found := false
	for _, one := range t.lora.Targets {
		if ends(name, one) {
			t.used[one], found = true, true
		}
	}
	return found
}

func (t *targets) excludes(name string) bool {
	return t.except != nil && matches(t.except, name) || slices.ContainsFunc(t.lora.Exclude, func(one string) bool { return ends(name, one) })
}

// ends reports whether a name is the end of a layer's, from a dot on, or all of it.
func ends(layer, name string) bool { return layer == name || strings.HasSuffix(layer, "."+name) }

// matches also tries the name that a layer has in a model that sees images.
func matches(pattern *regexp.Regexp, name string) bool {
	rest, inner := strings.CutPrefix(name, "model.")
	return pattern.MatchString(name) || inner && pattern.MatchString(nestedPrefix+rest)
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
	if _, stages := m.par.stage(); stages > 1 {
		return nil
	}
	for _, one := range t.lora.Targets {
		if !t.used[one] {
			return fmt.Errorf("model: LoRA target %q is not a linear layer of this model; it has %s", one, strings.Join(m.linears(), ", "))
		}
	}
	for _, one := range t.lora.Parameters {
		if !t.used[one] {
			return fmt.Errorf("model: LoRA target %q is not a stacked weight of experts of this model, such as mlp.experts.down_proj", one)
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
