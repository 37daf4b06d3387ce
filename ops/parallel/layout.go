package parallel

import (
	"fmt"
	"path"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
)

// WeightRole says which operator reads a gathered weight, and so in which format it is gathered.
type WeightRole uint8

// The roles.
const (
	// PlainWeight is gathered in ND.
	PlainWeight WeightRole = iota
	// GroupedWeight is a weight of GroupedMatmul, kept as [groups, in, out], the order in which the
	// forward pass reads it. It is gathered in FRACTAL_NZ if its dtype has 16 bits and in and out are
	// multiples of 16, else in ND.
	GroupedWeight
	// WholeWeight stays whole on each rank. Such weights are those of a Sharded of their own, without a communicator, and
	// their gradients are summed over the ranks (ShardGradients.Replicas).
	WholeWeight
)

// ShardRule assigns a role to weights by name, never by size. Weight matches the last component of
// a parameter's name, and Module the components before it or a suffix of them; both are path.Match
// patterns. {"mlp.experts", "*_proj", GroupedWeight, 0} matches layers.3.mlp.experts.down_proj.
type ShardRule struct {
	Module, Weight string
	Role           WeightRole
	Align          int64 // in place of ShardConfig.Align, unless it is 0
}

func (r ShardRule) matches(name string) (bool, error) {
	module, weight := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		module, weight = name[:i], name[i+1:]
	}
	parts := strings.Split(module, ".")
	if n := strings.Count(r.Module, ".") + 1; n < len(parts) {
		parts = parts[len(parts)-n:]
	}
	for _, p := range [][2]string{{r.Module, strings.Join(parts, ".")}, {r.Weight, weight}} {
		if ok, err := path.Match(p[0], p[1]); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// ShardConfig says how parameters are sharded. Its zero value is valid.
type ShardConfig struct {
	// Rules assign roles. The first rule that matches a weight decides; a weight without a match is
	// a PlainWeight.
	Rules []ShardRule
	// Align is the number of elements to which each parameter's part of a shard is aligned and
	// rounded up, 1 when 0. With ShardAlignment every part begins where the fused slice operator
	// reads fastest.
	Align int64
	// Scale multiplies the summed gradients. 0 means 1/ranks, which averages them.
	Scale float64
}

// ShardAlignment is 512 elements, to which Atlas A3 training aligns shards.
const ShardAlignment = 512

// ShardedParameter is a parameter of a sharded group.
type ShardedParameter struct {
	Name  string
	Shape []int64
}

// ShardLayout describes where parameters lie in the flat shards of a number of ranks. A shard has a
// part of every parameter, one after another, with gaps where alignments differ. The parts of a
// parameter, concatenated in rank order, are its elements in row-major order followed by padding.
type ShardLayout struct {
	Ranks int64
	Total int64 // elements of a shard
	Parts []ShardPart
}

// ShardPart is one parameter in a layout.
type ShardPart struct {
	ShardedParameter
	Role       WeightRole
	Start, End int64 // its columns in the matrix [ranks, Total] of all shards
}

// Len returns the number of elements of the parameter.
func (p *ShardPart) Len() int64 { return elements(p.Shape) }

// NZ reports whether the parameter is gathered in FRACTAL_NZ.
func (p *ShardPart) NZ(dt aclnn.DType) bool {
	return p.Role == GroupedWeight && (dt == aclnn.Float16 || dt == aclnn.BFloat16) && p.Shape[1]%16 == 0 && p.Shape[2]%16 == 0 && p.Len() > 0
}

// Owned returns the range [lo, hi) of the parameter's elements that a rank's shard holds.
func (p *ShardPart) Owned(rank int64) (lo, hi int64) {
	chunk := p.End - p.Start
	return min(rank*chunk, p.Len()), min((rank+1)*chunk, p.Len())
}

// NewShardLayout computes the layout of parameters for a number of ranks. Where a parameter is too
// small to give every rank elements, the remaining ranks hold padding.
func NewShardLayout(ranks int, parameters []ShardedParameter, c ShardConfig) (*ShardLayout, error) {
	align := max(c.Align, 1)
	if ranks < 1 || c.Align < 0 {
		return nil, check.Invalid("shards for %d ranks with alignment %d; both must be positive", ranks, c.Align)
	}
	for _, r := range c.Rules {
		if r.Align < 0 {
			return nil, check.Invalid("rule %q, %q has alignment %d; it must not be negative", r.Module, r.Weight, r.Align)
		}
	}
	l := &ShardLayout{Ranks: int64(ranks)}
	names := map[string]bool{}
	for _, p := range parameters {
		rule, err := c.Rule(p.Name)
		if err != nil {
			return nil, err
		}
		for _, d := range p.Shape {
			if d < 0 {
				return nil, check.Invalid("%s has shape %v; dimensions must not be negative", p.Name, p.Shape)
			}
		}
		switch {
		case names[p.Name]:
			return nil, check.Invalid("two parameters are called %s", p.Name)
		case rule.Role == WholeWeight && ranks > 1:
			return nil, check.Invalid("%s stays whole, and its shards would be on %d ranks; give it to a Sharded without a communicator", p.Name, ranks)
		case rule.Role == GroupedWeight && len(p.Shape) != 3:
			return nil, check.Invalid("%s has shape %v; a weight of grouped products is [groups, in, out]", p.Name, p.Shape)
		}
		names[p.Name] = true
		chunk := (elements(p.Shape) + l.Ranks - 1) / l.Ranks
		unit := align
		if rule.Align > 0 {
			unit = rule.Align
		}
		up := func(n int64) int64 { return (n + unit - 1) / unit * unit }
		start := up(l.Total)
		l.Total = start + up(chunk)
		l.Parts = append(l.Parts, ShardPart{ShardedParameter: p, Role: rule.Role, Start: start, End: l.Total})
	}
	return l, nil
}

// Rule returns the first rule that matches a weight's name, and the zero rule if none does.
func (c *ShardConfig) Rule(name string) (ShardRule, error) {
	for _, r := range c.Rules {
		ok, err := r.matches(name)
		if err != nil {
			return ShardRule{}, fmt.Errorf("%w: rule %q, %q: %w", ops.ErrInvalid, r.Module, r.Weight, err)
		}
		if ok {
			return r, nil
		}
	}
	return ShardRule{}, nil
}
