package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/class"
)

// ErrMesh is the error of ranks that cannot form a mesh, and of an axis that a mesh lacks.
var ErrMesh = class.Of(class.ErrInvalidArgument, "impossible mesh")

// Axis is one kind of parallelism and the number of ranks along it.
type Axis struct {
	Name string
	Size int
}

// Mesh arranges the ranks of a world along axes: rank = Σ coordinate × stride, where the stride of
// an axis is the product of the sizes of the axes before it. A Mesh is arithmetic only; Mesh.Group
// and Members make groups and communicators for its axes.
type Mesh struct {
	axes  []Axis
	rank  int
	coord []int // coordinates of rank, by axis
}

// NewMesh arranges size ranks along axes, the first of which varies fastest. The product of the
// axis sizes must be size.
func NewMesh(rank, size int, axes ...Axis) (*Mesh, error) {
	m := &Mesh{axes: slices.Clone(axes), rank: rank}
	total := 1
	for i, a := range axes {
		switch {
		case a.Name == "" || strings.ContainsAny(a.Name, "- "):
			return nil, fmt.Errorf("world: %w: axis %q; a name has no hyphens or spaces", ErrMesh, a.Name)
		case a.Size < 1:
			return nil, fmt.Errorf("world: %w: axis %s has size %d", ErrMesh, a.Name, a.Size)
		case slices.ContainsFunc(axes[:i], func(b Axis) bool { return a.Name == b.Name }):
			return nil, fmt.Errorf("world: %w: axis %s is given twice", ErrMesh, a.Name)
		case a.Size > size/total: // also true if the product would overflow
			return nil, fmt.Errorf("world: %w: %s needs more than %d ranks", ErrMesh, describeAxes(axes), size)
		}
		total *= a.Size
	}
	switch {
	case total != size:
		return nil, fmt.Errorf("world: %w: %s makes %d ranks, there are %d", ErrMesh, describeAxes(axes), total, size)
	case rank < 0 || rank >= size:
		return nil, fmt.Errorf("world: %w: rank %d of %d", ErrMesh, rank, size)
	}
	rest := rank
	for _, a := range axes {
		m.coord = append(m.coord, rest%a.Size)
		rest /= a.Size
	}
	return m, nil
}

// describeAxes formats axes as "tp2 cp1 dp4".
func describeAxes(axes []Axis) string {
	var parts []string
	for _, a := range axes {
		parts = append(parts, fmt.Sprintf("%s%d", a.Name, a.Size))
	}
	return strings.Join(parts, " ")
}

// String lists the axes with their sizes, the fastest first: "tp2 cp1 dp4 pp1".
func (m *Mesh) String() string { return describeAxes(m.Axes()) }

// Axes returns the mesh's axes, the fastest first.
func (m *Mesh) Axes() []Axis {
	if m == nil {
		return nil
	}
	return slices.Clone(m.axes)
}

// Rank returns the world rank for which the mesh was made.
func (m *Mesh) Rank() int {
	if m == nil {
		return 0
	}
	return m.rank
}

// find marks the named axes in the mesh's order.
func (m *Mesh) find(names []string) ([]bool, error) {
	if m == nil {
		return nil, fmt.Errorf("world: %w: the mesh is nil; NewMesh makes one", ErrMesh)
	}
	inside := make([]bool, len(m.axes))
	for _, name := range names {
		i := slices.IndexFunc(m.axes, func(a Axis) bool { return a.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("world: %w: no axis %q in %s", ErrMesh, name, m)
		case inside[i]:
			return nil, fmt.Errorf("world: %w: axis %q is named twice", ErrMesh, name)
		}
		inside[i] = true
	}
	return inside, nil
}

// Size returns the number of ranks along the named axes together, 1 without names.
func (m *Mesh) Size(names ...string) (int, error) {
	inside, err := m.find(names)
	if err != nil {
		return 0, err
	}
	n := 1
	for i, in := range inside {
		if in {
			n *= m.axes[i].Size
		}
	}
	return n, nil
}

// Index returns this rank's number within the group of the named axes, from 0 to Size-1.
func (m *Mesh) Index(names ...string) (int, error) {
	ranks, err := m.Ranks(names...)
	if err != nil {
		return 0, err
	}
	return slices.Index(ranks, m.rank), nil
}

// Ranks returns the world ranks in this rank's group over the named axes, that is, the ranks with
// the same coordinates on all other axes. They are in ascending order, and the position is the rank
// within the group; the order of the names does not matter. The ranks over "dp" and "cp" together
// hold different data; with cp > 1, "dp" alone does not include all of them.
func (m *Mesh) Ranks(names ...string) ([]int, error) {
	inside, err := m.find(names)
	if err != nil {
		return nil, err
	}
	return m.ranksOf(inside, m.rank), nil
}

// ranksOf lists the ranks of the group that contains rank.
func (m *Mesh) ranksOf(inside []bool, rank int) []int {
	// Start from the member with coordinate 0 on the axes inside, then add all combinations of
	// coordinates.
	base, stride := rank, 1
	strides := make([]int, len(m.axes))
	for i, a := range m.axes {
		strides[i] = stride
		if inside[i] {
			base -= rank / stride % a.Size * stride
		}
		stride *= a.Size
	}
	list := []int{base}
	for i, a := range m.axes {
		if !inside[i] {
			continue
		}
		head := list
		for c := 1; c < a.Size; c++ {
			for _, r := range head {
				list = append(list, r+c*strides[i])
			}
		}
	}
	return list
}

// Groups returns all groups over the named axes, ordered by their first rank. Every rank is in
// exactly one.
func (m *Mesh) Groups(names ...string) ([][]int, error) {
	inside, err := m.find(names)
	if err != nil {
		return nil, err
	}
	total := 1
	for _, a := range m.axes {
		total *= a.Size
	}
	var groups [][]int
	for rank := range total {
		if list := m.ranksOf(inside, rank); list[0] == rank {
			groups = append(groups, list)
		}
	}
	return groups, nil
}

// key returns the canonical name of a set of axes: "dp-cp" and "cp-dp" have the same key.
func (m *Mesh) key(inside []bool) string {
	var parts []string
	for i, in := range inside {
		if in && m.axes[i].Size > 1 {
			parts = append(parts, m.axes[i].Name)
		}
	}
	return strings.Join(parts, "-")
}
