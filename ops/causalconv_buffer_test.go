package ops

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const unifiedBufferA2 = 192 << 10

func TestConvTileBytes(t *testing.T) {
	for _, c := range []struct {
		tile                                   ConvTile
		backward16, backward32, ahead16, ahead int64
	}{
		{ConvTile{64, 16}, 42_944, 55_616, 21_184, 29_568},
		{ConvTile{64, 32}, 85_888, 111_232, 42_368, 59_136},
		{ConvTile{32, 64}, 89_856, 115_968, 43_776, 60_928},
		{ConvTile{64, 64}, 171_776, 222_464, 84_736, 118_272},
		{ConvTile{32, 128}, 179_712, 231_936, 87_552, 121_856},
		{ConvTile{64, 128}, 343_552, 444_928, 169_472, 236_544},
	} {
		t.Run(fmt.Sprint(c.tile), func(t *testing.T) {
			for _, n := range []struct {
				need ConvNeed
				want int64
			}{
				{ConvNeed{Taps: 4, ElementBytes: 2, Backward: true, SiLU: true}, c.backward16},
				{ConvNeed{Taps: 4, ElementBytes: 4, Backward: true, SiLU: true}, c.backward32},
				{ConvNeed{Taps: 4, ElementBytes: 2, SiLU: true}, c.ahead16},
				{ConvNeed{Taps: 4, ElementBytes: 4, SiLU: true}, c.ahead},
			} {
				require.Equal(t, n.want, c.tile.Bytes(n.need), "%+v", n.need)
				err := c.tile.Fits(&Env{UnifiedBuffer: unifiedBufferA2}, n.need)
				var refusal *Refusal
				require.Equal(t, n.want > unifiedBufferA2*9/10, errors.As(err, &refusal), "%+v: %v", n.need, err)
				if err != nil {
					require.Equal(t, "C24", refusal.Rule)
					require.ErrorContains(t, err, fmt.Sprint(n.want))
					require.ErrorContains(t, err, "the composite")
				}
				require.NoError(t, c.tile.Fits(&Env{}, n.need), "a buffer of unknown size")
			}
		})
	}
	need := ConvNeed{Taps: 4, ElementBytes: 2, Backward: true, SiLU: true}
	states := need
	states.States = true
	require.EqualValues(t, 8*4*16, ConvTile{64, 16}.Bytes(states)-ConvTile{64, 16}.Bytes(need))
}

func TestNativeConvTile(t *testing.T) {
	for _, c := range []struct {
		channels, wide, bytes int64
	}{{16, 16, 1248}, {4096, 4096, 188_928}, {8192, 4096, 188_928}} {
		tile, bytes := nativeConvTile(c.channels)
		require.Equal(t, ConvTile{1, c.wide}, tile)
		require.Equal(t, c.bytes, bytes)
	}
}

func TestNativeConvGradTile(t *testing.T) {
	model := ConvNeed{Taps: 4, ElementBytes: 2, Backward: true, SiLU: true}
	plain, wide, states := model, model, model
	plain.SiLU, wide.ElementBytes, states.States = false, 4, true
	for name, c := range map[string]struct {
		soc      string
		buffer   int
		channels int64
		need     ConvNeed
		tile     ConvTile
		bytes    int64
		fits     bool
	}{
		"fast, 128 channels":             {"Ascend910B1", unifiedBufferA2, 8192, model, ConvTile{50, 128}, 177_664, true},
		"fast, 64 channels":              {"Ascend910_9392", unifiedBufferA2, 192, model, ConvTile{104, 64}, 178_688, true},
		"generic, SiLU":                  {"Ascend910B1", unifiedBufferA2, 64, wide, ConvTile{64, 64}, 120_832, true},
		"generic, none":                  {"Ascend910B1", unifiedBufferA2, 8192, plain, ConvTile{64, 64}, 168_448, true},
		"generic, SiLU and states":       {"Ascend910B1", unifiedBufferA2, 8192, states, ConvTile{64, 64}, 120_832 + 4*64, true},
		"generic, 16 channels":           {"Ascend910B1", unifiedBufferA2, 48, model, ConvTile{64, 16}, 30_208, true},
		"Ascend 950":                     {"Ascend950PR", 248 << 10, 8192, model, ConvTile{104, 64}, 150_528, true},
		"half a buffer has fewer tokens": {"Ascend910B1", 96 << 10, 8192, model, ConvTile{21, 128}, 81_152, true},
		"hardly a buffer":                {"Ascend910B1", 20 << 10, 8192, model, ConvTile{1, 128}, 15_360, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := &Env{SoC: c.soc, UnifiedBuffer: c.buffer}
			tile, bytes := nativeConvGradTile(env, c.channels, c.need)
			require.Equal(t, c.tile, tile)
			require.Equal(t, c.bytes, bytes)
			require.Equal(t, c.fits, bytes <= nativeConvGradLimit(env))
			err := tile.within(env, bytes, nativeConvGradLimit(env))
			require.Equal(t, c.fits, err == nil, "%v", err)
			if c.fits && tile.Tokens < pathOf(env, c.channels, c.need).tile.Tokens {
				next := ConvTile{tile.Tokens + 1, tile.Channels}
				require.Greater(t, pathOf(env, c.channels, c.need).bytes(sizesOf(next, c.need), c.need), nativeConvGradLimit(env), "one token more")
			}
		})
	}
}
