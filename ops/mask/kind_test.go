package mask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops/mask"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		mask mask.Mask
		kind mask.Kind
		name string
	}{
		{nil, mask.KindNone, "none"},
		{mask.None{}, mask.KindNone, "none"},
		{mask.Causal{}, mask.KindCausal, "causal"},
		{mask.Causal{Anchor: mask.BottomRight}, mask.KindCausalBottomRight, "causal bottom-right"},
		{mask.Band{Pre: 3}, mask.KindBand, "band"},
		{mask.Band{Pre: 3, Anchor: mask.BottomRight}, mask.KindBandBottomRight, "band bottom-right"},
		{mask.Prefix{Lengths: []int64{1}}, mask.KindPrefix, "prefix"},
		{mask.Padding{Lengths: []int64{1}}, mask.KindPadding, "padding"},
		{mask.Padding{Lengths: []int64{1}, Causal: true, Exact: true}, mask.KindCausalPadding, "causal padding"},
		{mask.Dense{}, mask.KindDense, "dense"},
		{mask.Varlen{CuQueries: []int64{4}}, mask.KindNone, "none"},
		{mask.Varlen{CuQueries: []int64{4}, Within: mask.Causal{Anchor: mask.BottomRight}}, mask.KindCausalBottomRight, "causal bottom-right"},
	} {
		require.Equal(t, c.kind, mask.KindOf(c.mask), "%v", c.mask)
		require.Equal(t, c.name, c.kind.String())
	}
	require.Equal(t, "unknown", mask.Kind(99).String())
}
