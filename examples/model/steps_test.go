package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// pagesWith makes pages with a sequence that has been read, and the piece of its next token.
func pagesWith(t testing.TB, m *model.Model) (*model.Pages, model.Piece) {
	g, err := m.NewPages(model.PageSizes{Blocks: 4, Block: 64, States: 3})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g, begun(t, m, g)
}

// begun lets a sequence read its first tokens, and returns the piece of its next one.
func begun(t testing.TB, m *model.Model, g *model.Pages) model.Piece {
	_, err := m.Advance(t.Context(), g, []model.Piece{{Tokens: []int32{3, 1, 4, 1, 5}, Blocks: []int32{2}, State: 1}})
	require.NoError(t, err)
	return model.Piece{Tokens: []int32{9}, From: 5, Blocks: []int32{2}, State: 1}
}

// TestStepsEqual: a pass gives nearly the same logits with a graph, when it is captured and at each replay, and
// the same in any row and beside others.
func TestStepsEqual(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next"} {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
			t.Run(name+" "+dt.String(), func(t *testing.T) {
				st, reg := setUp(t)
				m, _ := newModel(t, st, reg, name, dt)
				g, next := pagesWith(t, m)
				want, err := m.Advance(t.Context(), g, []model.Piece{next})
				require.NoError(t, err)
				limit := 1e-4
				if dt == aclnn.BFloat16 {
					limit = .2
				}
				s, err := g.NewSteps()
				require.NoError(t, err)
				defer func() { require.NoError(t, s.Close()) }()
				vocab := m.Config.VocabSize
				other := model.Piece{Tokens: []int32{7}, Blocks: []int32{0}}
				for i, pieces := range [][]model.Piece{{next}, {next}, {other, next}, {other, next}, {{Tokens: []int32{8}, Blocks: []int32{1}, State: 2}, other, next}} {
					pieces[len(pieces)-1] = begun(t, m, g) // delta nets forget how they were before
					got, err := m.Advance(t.Context(), g, pieces)
					require.NoError(t, err)
					require.Len(t, got, len(pieces)*vocab)
					require.LessOrEqual(t, farthest(want, got[len(got)-vocab:]), limit, "pass %d", i)
				}
				require.Equal(t, 2, s.Replays())
				require.NoError(t, s.Off())
				require.EqualValues(t, 3, acl.Live()[acl.KindGraph])
			})
		}
	}
}

// TestStepsSpareTheHost: queueing a replay takes at most a tenth of the time of the launches.
func TestStepsSpareTheHost(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	g, next := pagesWith(t, m)
	s, err := g.NewSteps()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for range 3 {
		_, err := m.Advance(t.Context(), g, []model.Piece{next})
		require.NoError(t, err)
	}
	requireSpared(t, st, "step of a sequence", func(eager bool) error { return s.Queue(t.Context(), []model.Piece{next}, eager) })
}
