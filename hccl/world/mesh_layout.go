package world

import (
	"fmt"
	"slices"
	"strings"
)

// Layout describes how a model is distributed over ranks, in Megatron's terms. A size of 0 means 1. The
// size of data parallelism is the number of ranks divided by the other sizes.
type Layout struct {
	TP int // tensor parallel
	CP int // context parallel
	PP int // pipeline parallel
	EP int // expert parallel
	// ExpertTP is the tensor parallelism of experts; 0 means TP.
	ExpertTP int
	// Order names the dimensions, the fastest-varying first; empty means "tp-cp-ep-dp-pp". It must
	// contain every dimension larger than 1.
	Order string
}

const megatronOrder = "tp-cp-ep-dp-pp"

// fill sets the defaults.
func (l Layout) fill() Layout {
	for _, n := range []*int{&l.TP, &l.CP, &l.PP, &l.EP} {
		*n = max(*n, 1)
	}
	if l.ExpertTP < 1 {
		l.ExpertTP = l.TP
	}
	if l.Order == "" {
		l.Order = megatronOrder
	}
	return l
}

// Dense returns the mesh of all layers except the experts, with axes tp, cp, dp and pp in the order of
// Layout.Order. Gradients and metrics are reduced over "dp" and "cp" together, whose ranks hold
// different data.
func (l Layout) Dense(rank, size int) (*Mesh, error) {
	l = l.fill()
	return l.mesh(rank, size, map[string]int{"tp": l.TP, "cp": l.CP, "pp": l.PP})
}

// Expert returns the mesh of the experts of mixture-of-experts layers, with axes tp
// (Layout.ExpertTP), ep, dp and pp. Context-parallel ranks hold different tokens, so the dp axis
// includes them. The pipeline groups are the same as in Dense.
func (l Layout) Expert(rank, size int) (*Mesh, error) {
	l = l.fill()
	dense, err := l.Dense(rank, size)
	if err != nil {
		return nil, err
	}
	expert, err := l.mesh(rank, size, map[string]int{"tp": l.ExpertTP, "ep": l.EP, "pp": l.PP})
	if err != nil {
		return nil, err
	}
	ours, _ := dense.Groups("pp")
	theirs, _ := expert.Groups("pp")
	if !slices.EqualFunc(ours, theirs, slices.Equal) {
		return nil, fmt.Errorf("world: %w: the pipelines of experts (%s) are not those of the other layers (%s); put pp last in Order", ErrMesh, expert, dense)
	}
	return expert, nil
}

// mesh orders the sizes and gives dp the remaining ranks.
func (l Layout) mesh(rank, size int, sizes map[string]int) (*Mesh, error) {
	order := strings.Split(l.Order, "-")
	product := 1
	for name, n := range sizes {
		product *= n
		if n > 1 && !slices.Contains(order, name) {
			return nil, fmt.Errorf("world: %w: order %q lacks %s, which has size %d", ErrMesh, l.Order, name, n)
		}
	}
	if size < 1 || product < 1 || size%product != 0 {
		return nil, fmt.Errorf("world: %w: %d ranks are not a multiple of tp, cp, ep and pp together, %d", ErrMesh, size, product)
	}
	sizes["dp"] = size / product
	if sizes["dp"] > 1 && !slices.Contains(order, "dp") {
		return nil, fmt.Errorf("world: %w: order %q lacks dp, which has size %d", ErrMesh, l.Order, sizes["dp"])
	}
	var axes []Axis
	for _, name := range order {
		if !slices.Contains(strings.Split(megatronOrder, "-"), name) {
			return nil, fmt.Errorf("world: %w: order %q has %q; there are tp, cp, ep, dp, pp", ErrMesh, l.Order, name)
		}
		if n, ok := sizes[name]; ok {
			axes = append(axes, Axis{name, n})
		}
	}
	return NewMesh(rank, size, axes...)
}
