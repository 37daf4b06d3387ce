package hccl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrMesh is a mesh that its ranks cannot form, or an axis it does not have.
var ErrMesh = errors.New("impossible mesh")

// Axis is one kind of parallelism and over how many ranks it goes.
type Axis struct {
	Name string
	Size int
}

// Mesh arranges the ranks of a world in axes: rank = Σ coordinate × stride, the stride of an
// axis being the product of the sizes before it. It is arithmetic only; Mesh.Group and
// Members make groups and communicators of its axes.
type Mesh struct {
	axes  []Axis
	rank  int
	coord []int // of rank, by axis
}

// NewMesh arranges the ranks by axes, the first of which varies fastest; the sizes multiply
// to the number of ranks.
func NewMesh(rank, size int, axes ...Axis) (*Mesh, error) {
	m := &Mesh{axes: slices.Clone(axes), rank: rank}
	total := 1
	for i, a := range axes {
		switch {
		case a.Name == "" || strings.ContainsAny(a.Name, "- "):
			return nil, fmt.Errorf("hccl: %w: axis %q; a name has no hyphens or spaces", ErrMesh, a.Name)
		case a.Size < 1:
			return nil, fmt.Errorf("hccl: %w: axis %s has size %d", ErrMesh, a.Name, a.Size)
		case slices.ContainsFunc(axes[:i], func(b Axis) bool { return a.Name == b.Name }):
			return nil, fmt.Errorf("hccl: %w: axis %s is given twice", ErrMesh, a.Name)
		case a.Size > size/total: // also when the product would overflow
			return nil, fmt.Errorf("hccl: %w: %s needs more than %d ranks", ErrMesh, describeAxes(axes), size)
		}
		total *= a.Size
	}
	switch {
	case total != size:
		return nil, fmt.Errorf("hccl: %w: %s makes %d ranks, there are %d", ErrMesh, describeAxes(axes), total, size)
	case rank < 0 || rank >= size:
		return nil, fmt.Errorf("hccl: %w: rank %d of %d", ErrMesh, rank, size)
	}
	rest := rank
	for _, a := range axes {
		m.coord = append(m.coord, rest%a.Size)
		rest /= a.Size
	}
	return m, nil
}

// describeAxes is "tp2 cp1 dp4".
func describeAxes(axes []Axis) string {
	var parts []string
	for _, a := range axes {
		parts = append(parts, fmt.Sprintf("%s%d", a.Name, a.Size))
	}
	return strings.Join(parts, " ")
}

// String is the axes with their sizes, the fastest first: "tp2 cp1 dp4 pp1".
func (m *Mesh) String() string { return describeAxes(m.axes) }

// Axes are the mesh's axes, the fastest first.
func (m *Mesh) Axes() []Axis { return slices.Clone(m.axes) }

// Rank is the world's rank that the mesh was made for.
func (m *Mesh) Rank() int { return m.rank }

// find turns names into axes in the mesh's order.
func (m *Mesh) find(names []string) ([]bool, error) {
	inside := make([]bool, len(m.axes))
	for _, name := range names {
		i := slices.IndexFunc(m.axes, func(a Axis) bool { return a.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("hccl: %w: no axis %q in %s", ErrMesh, name, m)
		case inside[i]:
			return nil, fmt.Errorf("hccl: %w: axis %q is named twice", ErrMesh, name)
		}
		inside[i] = true
	}
	return inside, nil
}

// Size is over how many ranks the named axes go together: 1 for none.
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

// Index is this rank's number within the group of the named axes, 0 to Size-1.
func (m *Mesh) Index(names ...string) (int, error) {
	ranks, err := m.Ranks(names...)
	if err != nil {
		return 0, err
	}
	return slices.Index(ranks, m.rank), nil
}

// Ranks are the world's ranks in this rank's group over the named axes: those that have its
// coordinates on all others. They ascend, so the position is the rank within the group;
// the order of the names does not matter. Over "dp" and "cp" together these are the ranks
// that hold different data, over "dp" alone they are not when cp > 1.
func (m *Mesh) Ranks(names ...string) ([]int, error) {
	inside, err := m.find(names)
	if err != nil {
		return nil, err
	}
	return m.ranksOf(inside, m.rank), nil
}

// ranksOf lists the group that holds rank.
func (m *Mesh) ranksOf(inside []bool, rank int) []int {
	// The member with coordinate 0 on the axes inside, and then all combinations of them.
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

// Groups are all groups over the named axes, by their first rank. Every rank is in one.
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

// key is the canonical name of a set of axes: "dp-cp" and "cp-dp" are one.
func (m *Mesh) key(inside []bool) string {
	var parts []string
	for i, in := range inside {
		if in && m.axes[i].Size > 1 {
			parts = append(parts, m.axes[i].Name)
		}
	}
	return strings.Join(parts, "-")
}
