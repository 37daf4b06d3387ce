package ops

import (
	"fmt"
	"path"
	"strings"

	"github.com/goascend/cann/aclnn"
)

// WeightRole is what a gathered weight is read by.
type WeightRole uint8

// The roles.
const (
	// PlainWeight is gathered in ND.
	PlainWeight WeightRole = iota
	// GroupedWeight is [groups, in, out] and read by GroupedMatmul: it is gathered in
	// FRACTAL_NZ where that has such a product, 16-bit dtypes with in and out multiples of 16.
	GroupedWeight
)

// ShardRule gives weights a role by name, never by size: Weight is the last part of a
// parameter's name, Module the parts before it or the last of them, both as path.Match
// patterns. {"mlp.experts", "*_proj", GroupedWeight} takes layers.3.mlp.experts.down_proj.
type ShardRule struct {
	Module, Weight string
	Role           WeightRole
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

// ShardConfig says how parameters are sharded. The zero value will do.
type ShardConfig struct {
	// Rules give roles; the first that matches decides, and a weight that none matches is
	// plain.
	Rules []ShardRule
	// Align is the number of elements that each parameter's part of a shard is rounded up to,
	// 1 when 0. ShardAlignment keeps every part where the fused slice reads best.
	Align int64
	// Scale multiplies the summed gradients, 1/ranks when 0: the average.
	Scale float64
}

// ShardAlignment is 512 elements, to which Atlas A3 training aligns shards.
const ShardAlignment = 512

// ShardedParameter is a parameter of a sharded group.
type ShardedParameter struct {
	Name  string
	Shape []int64
}

// ShardLayout is how parameters lie in the flat shards of a number of ranks: a shard has a
// part of every parameter, one after another, and the parts of a parameter, rank after rank,
// are its elements in row-major order, followed by padding. It is a pure computation.
type ShardLayout struct {
	Ranks int64
	Total int64 // elements of a shard
	Parts []ShardPart
}

// ShardPart is a parameter in a layout.
type ShardPart struct {
	ShardedParameter
	Role       WeightRole
	Start, End int64 // its columns in [ranks, total]
}

// Len is the number of elements of the parameter.
func (p *ShardPart) Len() int64 { return elements(p.Shape) }

// NZ reports whether the parameter is gathered in FRACTAL_NZ.
func (p *ShardPart) NZ(dt aclnn.DType) bool {
	return p.Role == GroupedWeight && is16(dt) && p.Shape[1]%16 == 0 && p.Shape[2]%16 == 0 && p.Len() > 0
}

// Owned are the elements [lo, hi) of the parameter that a rank's shard holds.
func (p *ShardPart) Owned(rank int64) (lo, hi int64) {
	chunk := p.End - p.Start
	return min(rank*chunk, p.Len()), min((rank+1)*chunk, p.Len())
}

// NewShardLayout lays parameters out for any number of ranks. Ranks that get no elements of a
// small parameter have padding for it.
func NewShardLayout(ranks int, parameters []ShardedParameter, c ShardConfig) (*ShardLayout, error) {
	align := max(c.Align, 1)
	if ranks < 1 || c.Align < 0 {
		return nil, invalid("shards for %d ranks with alignment %d; both must be positive", ranks, c.Align)
	}
	l := &ShardLayout{Ranks: int64(ranks)}
	names := map[string]bool{}
	for _, p := range parameters {
		role, err := c.role(p.Name)
		if err != nil {
			return nil, err
		}
		for _, d := range p.Shape {
			if d < 0 {
				return nil, invalid("%s has shape %v; dimensions must not be negative", p.Name, p.Shape)
			}
		}
		switch {
		case names[p.Name]:
			return nil, invalid("two parameters are called %s", p.Name)
		case role == GroupedWeight && len(p.Shape) != 3:
			return nil, invalid("%s has shape %v; a weight of grouped products is [groups, in, out]", p.Name, p.Shape)
		}
		names[p.Name] = true
		chunk := (elements(p.Shape) + l.Ranks - 1) / l.Ranks
		chunk = (chunk + align - 1) / align * align
		l.Parts = append(l.Parts, ShardPart{ShardedParameter: p, Role: role, Start: l.Total, End: l.Total + chunk})
		l.Total += chunk
	}
	return l, nil
}

func (c *ShardConfig) role(name string) (WeightRole, error) {
	for _, r := range c.Rules {
		ok, err := r.matches(name)
		if err != nil {
			return 0, fmt.Errorf("%w: rule %q, %q: %w", ErrInvalid, r.Module, r.Weight, err)
		}
		if ok {
			return r.Role, nil
		}
	}
	return PlainWeight, nil
}
