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
		tile                                   convTile
		backward16, backward32, ahead16, ahead int64
	}{
		{convTile{64, 16}, 42_944, 55_616, 21_184, 29_568},
		{convTile{64, 32}, 85_888, 111_232, 42_368, 59_136},
		{convTile{32, 64}, 89_856, 115_968, 43_776, 60_928},
		{convTile{64, 64}, 171_776, 222_464, 84_736, 118_272},
		{convTile{32, 128}, 179_712, 231_936, 87_552, 121_856},
		{convTile{64, 128}, 343_552, 444_928, 169_472, 236_544},
	} {
		t.Run(fmt.Sprint(c.tile), func(t *testing.T) {
			for _, n := range []struct {
				need convNeed
				want int64
			}{
				{convNeed{taps: 4, elementBytes: 2, backward: true, silu: true}, c.backward16},
				{convNeed{taps: 4, elementBytes: 4, backward: true, silu: true}, c.backward32},
				{convNeed{taps: 4, elementBytes: 2, silu: true}, c.ahead16},
				{convNeed{taps: 4, elementBytes: 4, silu: true}, c.ahead},
			} {
				require.Equal(t, n.want, c.tile.bytes(n.need), "%+v", n.need)
				err := c.tile.fits(&Env{UnifiedBuffer: unifiedBufferA2}, n.need)
				var refusal *Refusal
				require.Equal(t, n.want > unifiedBufferA2*9/10, errors.As(err, &refusal), "%+v: %v", n.need, err)
				if err != nil {
					require.Equal(t, "C24", refusal.Rule)
					require.ErrorContains(t, err, fmt.Sprint(n.want))
					require.ErrorContains(t, err, "the composite")
				}
				require.NoError(t, c.tile.fits(&Env{}, n.need), "a buffer of unknown size")
			}
		})
	}
	need := convNeed{taps: 4, elementBytes: 2, backward: true, silu: true}
	states := need
	states.states = true
	require.EqualValues(t, 8*4*16, convTile{64, 16}.bytes(states)-convTile{64, 16}.bytes(need))
}

func TestNativeConvTile(t *testing.T) {
	for _, c := range []struct {
		channels, wide, bytes int64
	}{{16, 16, 1248}, {4096, 4096, 188_928}, {8192, 4096, 188_928}} {
		tile, bytes := nativeConvTile(c.channels)
		require.Equal(t, convTile{1, c.wide}, tile)
		require.Equal(t, c.bytes, bytes)
	}
}

func TestNativeConvGradTile(t *testing.T) {
	model := convNeed{taps: 4, elementBytes: 2, backward: true, silu: true}
	plain, wide, states := model, model, model
	plain.silu, wide.elementBytes, states.states = false, 4, true
	for name, c := range map[string]struct {
		soc      string
		buffer   int
		channels int64
		need     convNeed
		tile     convTile
		bytes    int64
		fits     bool
	}{
		"fast, 128 channels":             {"Ascend910B1", unifiedBufferA2, 8192, model, convTile{50, 128}, 177_664, true},
		"fast, 64 channels":              {"Ascend910_9392", unifiedBufferA2, 192, model, convTile{104, 64}, 178_688, true},
		"generic, SiLU":                  {"Ascend910B1", unifiedBufferA2, 64, wide, convTile{64, 64}, 120_832, true},
		"generic, none":                  {"Ascend910B1", unifiedBufferA2, 8192, plain, convTile{64, 64}, 168_448, true},
		"generic, SiLU and states":       {"Ascend910B1", unifiedBufferA2, 8192, states, convTile{64, 64}, 120_832 + 4*64, true},
		"generic, 16 channels":           {"Ascend910B1", unifiedBufferA2, 48, model, convTile{64, 16}, 30_208, true},
		"Ascend 950":                     {"Ascend950PR", 248 << 10, 8192, model, convTile{104, 64}, 150_528, true},
		"half a buffer has fewer tokens": {"Ascend910B1", 96 << 10, 8192, model, convTile{21, 128}, 81_152, true},
		"hardly a buffer":                {"Ascend910B1", 20 << 10, 8192, model, convTile{1, 128}, 15_360, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := &Env{SoC: c.soc, UnifiedBuffer: c.buffer}
			tile, bytes := nativeConvGradTile(env, c.channels, c.need)
			require.Equal(t, c.tile, tile)
			require.Equal(t, c.bytes, bytes)
			require.Equal(t, c.fits, bytes <= nativeConvGradLimit(env))
			err := tile.within(env, bytes, nativeConvGradLimit(env))
			require.Equal(t, c.fits, err == nil, "%v", err)
			if c.fits && tile.tokens < pathOf(env, c.channels, c.need).tile.tokens {
				next := convTile{tile.tokens + 1, tile.channels}
				require.Greater(t, pathOf(env, c.channels, c.need).bytes(sizesOf(next, c.need), c.need), nativeConvGradLimit(env), "one token more")
			}
		})
	}
}
