package attention

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestSinks compares both directions with the definition, in every layout and type, with masks that leave rows without a
// key, and with sinks that are far above and below all scores.
func TestSinks(t *testing.T) {
	for _, layout := range []string{"BSH", "SBH", "BSND", "BNSD", "TND"} {
		for _, base := range append([]trial{{heads: 2, keyHeads: 1, dim: 16, valDim: 16, rows: []int64{3}, cols: []int64{1100}}}, attentionTrials...) {
			for _, d := range attentionDTypes {
				x := base
				x.layout, x.dtype, x.version = layout, d, "V3"
				x.sinks = []float64{0.5, -20, 30, 1.75}[:x.heads]
				if x.packed() {
					x.version = "V5"
					if len(x.rows) > 1 {
						x.rows, x.cols = slices.Clone(x.rows), slices.Clone(x.cols)
						x.rows[1], x.cols[0] = 5, 40
					}
				}
				x.args = optest.Args{"pseType": 1}
				t.Run(fmt.Sprintf("%v/full", &x), func(t *testing.T) { x.check(t) })
				x.args = optest.Args{"pseType": 1, "sparseMode": 2, "attenMaskOptional": triangle(t, 2048)}
				x.visible = func(_ int, _, i, j int64) bool { return j <= i }
				t.Run(fmt.Sprintf("%v/causal", &x), func(t *testing.T) { x.check(t) })
				if x.packed() {
					continue
				}
				x.visible = func(item int, h, i, j int64) bool { return (int64(item)+h+3*i)%4 != 0 && (i+j)%3 != 1 }
				x.args = optest.Args{"pseType": 1, "sparseMode": 1, "attenMaskOptional": denseMask(t, []int64{int64(len(x.rows)), x.heads, x.rows[0], x.cols[0]}, x.visible)}
				t.Run(fmt.Sprintf("%v/rows without keys", &x), func(t *testing.T) { x.check(t) })
			}
		}
	}
}

// Without sinks the new functions compute what the older ones compute.
func TestSinksAreOptional(t *testing.T) {
	x := attentionTrials[0]
	x.layout, x.dtype, x.version, x.args = "BNSD", dtype.BFloat16, "V3", optest.Args{"pseType": 1}
	x.check(t)
	x.layout, x.version = "TND", "V5"
	x.check(t)
}

func TestSinksRefused(t *testing.T) {
	x := attentionTrials[0]
	x.layout, x.dtype, x.version, x.sinks = "BNSD", dtype.Float32, "V3", []float64{1, 2}
	v, a := x.start(t)
	for text, sink := range map[string]*op.Tensor{
		"dtype":   optest.Tensor(t, dtype.Float16, []int64{2}),
		"headNum": optest.Tensor(t, dtype.Float32, []int64{3}),
	} {
		optest.Refused(t, op.InvalidParam, "FlashAttentionScoreV3", a.With(optest.Args{"pseType": 1, "sinkOptional": sink}), text)
	}
	optest.Refused(t, op.NullPointer, "FlashAttentionScoreGradV3", v.backwardArgs(a).With(optest.Args{"pseType": 1, "dsinkOut": nil}), "dsinkOut is null")
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "FlashAttentionScoreV3", a.With(optest.Args{"pseType": 1}))
	require.ErrorContains(t, err, "no sinks")
}
