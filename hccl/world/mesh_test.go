package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The rank lists that Megatron's algorithm gives for 8 ranks: "01 23" means two groups.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		expert bool
		want   map[string]string
	}{
		{Layout{TP: 2, PP: 2}, false, map[string]string{"tp": "01 23 45 67", "dp": "02 13 46 57", "dp-cp": "02 13 46 57", "pp": "04 15 26 37", "tp-pp": "0145 2367", "tp-dp": "0123 4567"}},
		{Layout{TP: 2, CP: 2}, false, map[string]string{"tp": "01 23 45 67", "cp": "02 13 46 57", "dp": "04 15 26 37", "dp-cp": "0246 1357", "tp-cp": "0123 4567", "tp-dp-cp": "01234567", "pp": "0 1 2 3 4 5 6 7"}},
		{Layout{EP: 4}, true, map[string]string{"ep": "0123 4567", "tp-ep": "0123 4567", "dp": "04 15 26 37"}},
		{Layout{TP: 2, EP: 2}, true, map[string]string{"tp": "01 23 45 67", "ep": "02 13 46 57", "tp-ep": "0123 4567", "dp": "04 15 26 37"}},
		{Layout{EP: 2, PP: 2}, true, map[string]string{"ep": "01 23 45 67", "dp": "02 13 46 57", "pp": "04 15 26 37", "tp-ep-pp": "0145 2367"}},
		{Layout{TP: 2, EP: 4, ExpertTP: 1}, true, map[string]string{"ep": "0123 4567", "dp": "04 15 26 37"}},
		{Layout{TP: 2, PP: 2, Order: "tp-cp-ep-pp-dp"}, false, map[string]string{"tp": "01 23 45 67", "pp": "02 13 46 57", "dp": "04 15 26 37"}},
		{Layout{}, false, map[string]string{"dp": "01234567", "tp": "0 1 2 3 4 5 6 7"}},
	} {
		for names, want := range c.want {
			t.Run(fmt.Sprintf("%+v %s", c.layout, names), func(t *testing.T) {
				var all []string
				for rank := range 8 {
					make := c.layout.Dense
					if c.expert {
						make = c.layout.Expert
					}
					m, err := make(rank, 8)
					require.NoError(t, err)
					axes := strings.Split(names, "-")
					ranks, err := m.Ranks(axes...)
					require.NoError(t, err)
					require.Contains(t, ranks, rank)
					index, err := m.Index(axes...)
					require.NoError(t, err)
					require.Equal(t, rank, ranks[index])
					size, err := m.Size(axes...)
					require.NoError(t, err)
					require.Len(t, ranks, size)
					var digits strings.Builder
					for _, r := range ranks {
						fmt.Fprint(&digits, r)
					}
					if !slices.Contains(all, digits.String()) {
						all = append(all, digits.String())
					}
				}
				assert.Equal(t, want, strings.Join(all, " "))
			})
		}
	}
}

func TestLayoutFaults(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		text   string
	}{
		{Layout{TP: 3}, "not a multiple"},
		{Layout{TP: 16}, "not a multiple"},
		{Layout{CP: 2, Order: "tp-dp-pp"}, "lacks cp"},
		{Layout{Order: "tp-cp-pp"}, "lacks dp"},
		{Layout{Order: "tp-xp-dp"}, `has "xp"`},
		{Layout{Order: "tp-dp-dp"}, "given twice"},
		{Layout{EP: 4, PP: 2, CP: 2, Order: "tp-cp-pp-ep-dp"}, "put pp last"},
	} {
		_, err := c.layout.Expert(0, 8)
		require.ErrorIs(t, err, ErrMesh, "%+v", c.layout)
		assert.ErrorContains(t, err, c.text)
	}
	for _, c := range []struct {
		rank, size int
		axes       []Axis
	}{
		{0, 4, []Axis{{"a", 2}}}, {0, 4, []Axis{{"a", 2}, {"a", 2}}}, {4, 4, []Axis{{"a", 4}}}, {-1, 4, []Axis{{"a", 4}}},
		{0, 4, []Axis{{"", 4}}}, {0, 4, []Axis{{"a-b", 4}}}, {0, 4, []Axis{{"a", 0}}}, {0, 4, []Axis{{"a", 1 << 62}, {"b", 1 << 62}}},
		{0, 0, nil},
	} {
		_, err := NewMesh(c.rank, c.size, c.axes...)
		require.ErrorIs(t, err, ErrMesh, "%+v", c)
	}
	m, err := NewMesh(1, 4, Axis{"a", 4})
	require.NoError(t, err)
	for _, names := range [][]string{{"b"}, {"a", "a"}} {
		_, err = m.Ranks(names...)
		require.ErrorIs(t, err, ErrMesh)
		_, err = m.Groups(names...)
		require.ErrorIs(t, err, ErrMesh)
	}
}

// In every mesh, the groups over any axes partition the ranks, and are equal on all ranks.
func TestMeshPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var axes []Axis
		size := 1
		for i := range rapid.IntRange(0, 4).Draw(t, "axes") {
			n := rapid.IntRange(1, 4).Draw(t, "size")
			axes = append(axes, Axis{fmt.Sprint("a", i), n})
			size *= n
		}
		var names []string
		for _, a := range axes {
			if rapid.Bool().Draw(t, a.Name) {
				names = append(names, a.Name)
			}
		}
		var first [][]int
		for rank := range size {
			m, err := NewMesh(rank, size, axes...)
			if err != nil {
				t.Fatal(err)
			}
			groups, err := m.Groups(names...)
			if err != nil {
				t.Fatal(err)
			}
			if rank == 0 {
				first = groups
				seen := slices.Concat(groups...)
				slices.Sort(seen)
				for i, r := range seen {
					if r != i {
						t.Fatalf("%v", groups)
					}
				}
			}
			if !slices.EqualFunc(first, groups, slices.Equal) {
				t.Fatalf("%v, %v", first, groups)
			}
			slices.Reverse(names) // the order of names does not matter
			mine, err := m.Ranks(names...)
			if err != nil || !slices.IsSorted(mine) || !slices.ContainsFunc(groups, func(g []int) bool { return slices.Equal(g, mine) }) {
				t.Fatalf("%v in %v, %v", mine, groups, err)
			}
		}
	})
}

// Metrics over dp and cp together include the ranks that dp alone omits.
func TestMeshGroup(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 8, GroupConfig{})
	requireAll(t, onAll(groups, func(world *Group) error {
		m, err := Layout{TP: 2, CP: 2}.Dense(world.Rank(), 8)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			axes []string
			want []int
		}{{[]string{"dp"}, []int{0, 4}}, {[]string{"dp", "cp"}, []int{0, 2, 4, 6}}, {[]string{"pp"}, []int{0}}} {
			g, err := m.Group(ctx, world, c.axes...)
			if err != nil {
				return err
			}
			defer g.Close()
			all, err := AllGather(ctx, g, world.Rank())
			if err != nil {
				return err
			}
			if world.Rank() == 0 && !slices.Equal(all, c.want) {
				return fmt.Errorf("%v: %v", c.axes, all)
			}
		}
		_, err = m.Group(ctx, world, "ep")
		if !errors.Is(err, ErrMesh) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	}))
}

// member counts the values that Members makes.
type member struct {
	name   string
	ranks  []int
	closed *[]string
	err    error
}

func (m *member) Close() error {
	*m.closed = append(*m.closed, m.name)
	return m.err
}

func TestMembers(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 8, GroupConfig{})
	requireAll(t, onAll(groups, func(world *Group) error {
		m, err := Layout{TP: 2, CP: 2}.Dense(world.Rank(), 8)
		if err != nil {
			return err
		}
		var made, closed []string
		members := NewMembers(m, world, func(ctx context.Context, g *Group) (*member, error) {
			name := strings.TrimPrefix(g.Name(), "member ")
			made = append(made, name)
			ranks, err := AllGather(ctx, g, world.Rank())
			return &member{name: name, ranks: ranks, closed: &closed}, err
		})
		for _, names := range [][]string{{"pp"}, {"tp"}, {"dp", "cp"}, {"tp"}, {"cp", "dp"}, {"cp", "dp", "pp"}} {
			c, err := members.Of(ctx, names...)
			if err != nil {
				return err
			}
			want, _ := m.Ranks(names...)
			if len(want) == 1 && c != nil || len(want) > 1 && !slices.Equal(c.ranks, want) {
				return fmt.Errorf("%v: %+v", names, c)
			}
		}
		if _, err := members.Of(ctx, "ep"); !errors.Is(err, ErrMesh) {
			return fmt.Errorf("not refused: %w", err)
		}
		if err := members.Close(); err != nil {
			return err
		}
		if !slices.Equal(made, []string{"tp", "cp-dp"}) || !slices.Equal(closed, []string{"cp-dp", "tp"}) {
			return fmt.Errorf("made %v, closed %v", made, closed)
		}
		if _, err := members.Of(ctx, "tp"); !errors.Is(err, ErrClosed) {
			return fmt.Errorf("not refused: %w", err)
		}
		return members.Close()
	}))
}

func TestMembersFaults(t *testing.T) {
	ctx := within(t, patient)
	t.Run("one rank fails", func(t *testing.T) {
		groups := localGroups(t, 4, GroupConfig{})
		for rank, err := range onAll(groups, func(world *Group) error {
			m, err := NewMesh(world.Rank(), 4, Axis{"a", 2}, Axis{"b", 2})
			if err != nil {
				return err
			}
			var closed []string
			members := NewMembers(m, world, func(_ context.Context, g *Group) (*member, error) {
				if world.Rank() == 3 {
					return nil, errors.New("no memory")
				}
				return &member{name: g.Name(), closed: &closed}, nil
			})
			_, err = members.Of(ctx, "a")
			if (len(closed) == 1) != (world.Rank() != 3) {
				return fmt.Errorf("closed: %v", closed)
			}
			return err
		}) {
			require.ErrorIs(t, err, ErrRankFailed, "rank %d", rank)
			require.ErrorContains(t, err, "rank 3: no memory")
		}
	})
	t.Run("another order", func(t *testing.T) {
		groups := localGroups(t, 4, GroupConfig{})
		for rank, err := range onAll(groups, func(world *Group) error {
			m, err := NewMesh(world.Rank(), 4, Axis{"a", 2}, Axis{"b", 2})
			if err != nil {
				return err
			}
			members := NewMembers(m, world, func(context.Context, *Group) (*member, error) {
				return nil, errors.New("must not be called")
			})
			_, err = members.Of(ctx, []string{"a", "b"}[world.Rank()/3])
			return err
		}) {
			require.ErrorIs(t, err, ErrOutOfStep, "rank %d", rank)
			require.ErrorContains(t, err, "member b")
		}
	})
	t.Run("Close fails", func(t *testing.T) {
		groups := localGroups(t, 2, GroupConfig{})
		for _, err := range onAll(groups, func(world *Group) error {
			m, err := NewMesh(world.Rank(), 2, Axis{"a", 2})
			if err != nil {
				return err
			}
			var closed []string
			members := NewMembers(m, world, func(_ context.Context, g *Group) (*member, error) {
				return &member{name: g.Name(), closed: &closed, err: errors.New("busy")}, nil
			})
			if _, err := members.Of(ctx, "a"); err != nil {
				return err
			}
			return members.Close()
		}) {
			require.ErrorContains(t, err, "member a: busy")
		}
	})
}
