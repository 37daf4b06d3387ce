package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// TestPaddingOf checks that the 2-D mask and the last token of every row are found in dense masks
// of any dtype and meaning.
func TestPaddingOf(t *testing.T) {
	b := opstest.New(t)
	valid := [][]bool{{true, true, true, true}, {true, true, false, false}, {false, true, true, false}}
	var flat []bool
	for _, row := range valid {
		flat = append(flat, row...)
	}
	s := mask.Shape{Layout: mask.BSND, Batch: 3, Heads: 2, Queries: 4, Keys: 4}
	for name, form := range opstest.DenseForms {
		for _, heads := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " heads ", heads), func(t *testing.T) {
				m := form(b, opstest.CausalCells(valid, heads), 3, int64(heads), 4, 4)
				p, err := ops.PaddingOf(t.Context(), b.Stream, m, s)
				require.NoError(t, err)
				require.Equal(t, flat, p.Valid)
				last, err := ops.LastTokens(t.Context(), b.Stream, m, s)
				require.NoError(t, err)
				require.Equal(t, []int64{3, 1, 2}, last)
			})
		}
		t.Run(name+" of keys", func(t *testing.T) {
			p, err := ops.PaddingOf(t.Context(), b.Stream, form(b, []byte{0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1}, 3, 1, 1, 4), s)
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, true, true, true, true, false, false, false, true, true, false}, p.Valid)
		})
		t.Run(name+" shared", func(t *testing.T) {
			p, err := ops.PaddingOf(t.Context(), b.Stream, form(b, opstest.CausalCells(valid[1:2], 1), 4, 4), s)
			require.NoError(t, err)
			require.Equal(t, append(append(append([]bool{}, valid[1]...), valid[1]...), valid[1]...), p.Valid)
		})
	}
}

// TestLastTokens checks that every mask has last tokens or is refused with a reason.
func TestLastTokens(t *testing.T) {
	b := opstest.New(t)
	s := mask.Shape{Layout: mask.BSND, Batch: 2, Heads: 1, Queries: 3, Keys: 3}
	packed := mask.Shape{Layout: mask.TND, Batch: 1, Heads: 1, Queries: 5, Keys: 5}
	hidden := opstest.Data(b, aclnn.Uint8, []byte{0, 0, 1, 1, 1, 1}, 2, 1, 1, 3)
	for _, c := range []struct {
		mask  mask.Mask
		shape mask.Shape
		want  []int64
		text  string
	}{
		{nil, s, []int64{2, 2}, ""},
		{mask.None{}, s, []int64{2, 2}, ""},
		{mask.Causal{}, s, []int64{2, 2}, ""},
		{mask.Band{Pre: 1}, s, []int64{2, 2}, ""},
		{mask.Prefix{Lengths: []int64{1, 2}}, s, []int64{2, 2}, ""},
		{mask.Padding{Lengths: []int64{3, 1}}, s, []int64{2, 0}, ""},
		{mask.Varlen{CuQueries: []int64{0, 2, 5}}, packed, []int64{1, 4}, ""},
		{mask.Varlen{CuQueries: []int64{0, 2, 5}, Within: mask.Dense{Tensor: opstest.Data(b, aclnn.Bool, make([]byte, 9), 3, 3), Meaning: mask.Hidden}}, packed, []int64{1, 4}, ""},
		{mask.Dense{Tensor: opstest.Data(b, aclnn.Bool, []byte{0, 0, 0, 0, 1, 1}, 2, 1, 1, 3), Meaning: mask.Hidden}, s, []int64{2, 0}, ""},
		{mask.Dense{Tensor: hidden, Meaning: mask.Hidden}, s, nil, "item 1 has no token"},
		{mask.Dense{Tensor: hidden.Reshape(2, 3), Meaning: mask.Hidden}, s, nil, "use mask.Padding"},
		{mask.Dense{Tensor: hidden, Meaning: mask.Hidden}, packed, nil, "wrap the mask"},
		{mask.Dense{}, s, nil, "no tensor"},
	} {
		got, err := ops.LastTokens(t.Context(), b.Stream, c.mask, c.shape)
		if c.text != "" {
			require.ErrorIs(t, err, mask.ErrRefused)
			require.ErrorContains(t, err, c.text)
			continue
		}
		require.NoError(t, err, "%v", c.mask)
		require.Equal(t, c.want, got, "%v", c.mask)
	}
	p, err := ops.PaddingOf(t.Context(), b.Stream, mask.Dense{Tensor: b.Empty(aclnn.Bool, 0, 1, 3, 3), Meaning: mask.Hidden}, mask.Shape{Layout: mask.BSND, Heads: 1, Queries: 3, Keys: 3})
	require.NoError(t, err)
	require.Equal(t, mask.Padding{Valid: []bool{}}, p)
}

// FuzzDenseMask converts masks of any cells, dtype and meaning, and compares attention under them
// with the definition: visible keys have weight, and a key that no query sees is padding.
func FuzzDenseMask(f *testing.F) {
	f.Add([]byte{0b01011010, 0b11110000}, uint8(3), uint8(5), uint8(2), uint8(0))
	f.Add([]byte{0xff}, uint8(1), uint8(8), uint8(1), uint8(4))
	f.Add([]byte{0, 1, 2, 4, 8}, uint8(4), uint8(4), uint8(3), uint8(6))
	names := []string{"bool", "uint8", "int64", "visible bool", "visible int32", "additive", "additive float16"}
	f.Fuzz(func(t *testing.T, bits []byte, queries, keys, batch, form uint8) {
		sq, skv, items := int64(queries%6)+1, int64(keys%9)+1, int64(batch%3)+1
		cells := make([]byte, items*sq*skv)
		for i := range cells {
			if len(bits) > 0 {
				cells[i] = bits[i/8%len(bits)] >> (i % 8) & 1
			}
		}
		b := opstest.New(t)
		m := opstest.DenseForms[names[int(form)%len(names)]](b, cells, items, 1, sq, skv)
		s := mask.Shape{Layout: mask.BNSD, Batch: items, Heads: 1, Queries: sq, Keys: skv}

		// With zero scores a query returns the mean of the values that it sees, which are one-hot
		// here.
		want, seen := make([]float32, items*sq*skv), make([]bool, items*skv)
		value := make([]float32, items*skv*skv)
		for item := range items {
			for j := range skv {
				value[(item*skv+j)*skv+j] = 1
			}
			for i := range sq {
				row, count := cells[(item*sq+i)*skv:][:skv], float32(0)
				for j, hidden := range row {
					if hidden == 0 {
						seen[item*skv+int64(j)] = true
						count++
					}
				}
				for j, hidden := range row {
					if hidden == 0 {
						want[(item*sq+i)*skv+int64(j)] = 1 / count
					}
				}
			}
		}
		p, err := ops.PaddingOf(t.Context(), b.Stream, m, s)
		require.NoError(t, err)
		require.Equal(t, seen, p.Valid)
		for _, kernel := range []string{"FlashAttentionScore", "composite"} {
			require.NoError(t, b.Attention().Pin(kernel))
			out := b.Empty(aclnn.Float32, items, 1, sq, skv)
			opstest.Run(b, b.Attention(), &ops.AttentionArgs{
				Query: b.Floats(aclnn.Float32, make([]float32, items*sq*skv), items, 1, sq, skv), Key: b.Floats(aclnn.Float32, make([]float32, items*skv*skv), items, 1, skv, skv),
				Value: b.Floats(aclnn.Float32, value, items, 1, skv, skv), Layout: ops.BNSD, Mask: m, Scale: 1, Out: out,
			})
			require.InDeltaSlice(t, want, b.Read(out), 1e-6, kernel)
			require.NoError(t, b.Attention().Unpin())
		}
	})
}
