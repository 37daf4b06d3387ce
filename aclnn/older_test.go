//go:build emu

package aclnn_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// TestOperatorsOfOlderCANN runs in a process with CANN 8.1, which lacks operators that came later.
// Asking for them and launching them says so.
func TestOperatorsOfOlderCANN(t *testing.T) {
	newer := []aclnn.Params{
		&aclnn.RotaryPositionEmbeddingParams{}, &aclnn.GroupedMatmulV5Params{}, &aclnn.GroupedMatmulWeightNzParams{}, &aclnn.MatmulWeightNzParams{},
		&aclnn.NpuFormatCastParams{}, &aclnn.FusedInferAttentionScoreV4Params{},
	}
	older := []aclnn.Params{
		&aclnn.ApplyRotaryPosEmbParams{}, &aclnn.GroupedMatmulV4Params{}, &aclnn.TransMatmulWeightParams{}, &aclnn.IncreFlashAttentionV4Params{},
		&aclnn.FusedInferAttentionScoreV3Params{}, &aclnn.MoeInitRoutingV2Params{},
	}
	if os.Getenv("CANN_EMU_API") == "" {
		for _, p := range append(newer, older...) {
			require.NoError(t, p.Operator().Available(), p.Operator().Name())
		}
	}
	acltest.Rerun(t, func(t *testing.T) {
		st := openStream(t)
		for _, p := range newer {
			var missing *cshim.SymbolError
			require.ErrorAs(t, p.Operator().Available(), &missing, p.Operator().Name())
			require.Equal(t, "since CANN 8.5.0", p.Operator().From(), p.Operator().Name())
			c := aclnn.NewCall(st, p.Operator())
			p.Encode(c)
			require.ErrorIs(t, c.Launch(), acl.ErrNotSupported, p.Operator().Name())
		}
		require.Equal(t, "in no release of CANN yet", (&aclnn.MlaPrologV4WeightNzParams{}).Operator().From())
		require.Equal(t, "of a custom operator package", (&aclnn.CausalConv1dParams{}).Operator().From())
		for _, p := range older {
			require.NoError(t, p.Operator().Available(), p.Operator().Name())
		}
	}, "CANN_EMU_API="+abi.V81RC1)
}

// TestOtherForms runs in a process for each release. An operator whose symbol has other parameters there is refused
// before its arguments are passed; the emulator refuses the call of a program that does not know of the other form.
func TestOtherForms(t *testing.T) {
	for release, available := range map[string]func(t *testing.T, err error){
		abi.V850: func(t *testing.T, err error) {
			var missing *cshim.SymbolError
			require.ErrorAs(t, err, &missing)
		},
		abi.V900: func(t *testing.T, err error) {
			var form *cshim.FormError
			require.ErrorAs(t, err, &form)
			require.Equal(t, cshim.FormError{Symbol: "aclnnAlltoAllvQuantGroupedMatMul", Installed: abi.V900}, *form)
			require.ErrorIs(t, err, acl.ErrNotSupported)
		},
		abi.V910: func(t *testing.T, err error) { require.NoError(t, err) },
	} {
		t.Run(release, func(t *testing.T) {
			acltest.Rerun(t, func(t *testing.T) {
				p := new(aclnn.AlltoAllvQuantGroupedMatMulParams)
				available(t, p.Operator().Available())
				require.NoError(t, new(aclnn.MlaPrologV3WeightNzParams).Operator().Available(), "releases have one form of it")
				st := openStream(t)
				c := aclnn.NewCall(st, p.Operator())
				p.Encode(c)
				err := c.Launch()
				require.Error(t, err)
				if release != abi.V900 {
					return
				}
				require.ErrorContains(t, err, "has other parameters in the installed CANN 9.0.0 than this program passes")
				c = aclnn.NewCall(st, &aclnn.Operator{Symbol: p.Operator().Symbol})
				p.Encode(c)
				require.ErrorContains(t, c.Launch(), "has other parameters in CANN 9.0.0 than the emulator reads")
			}, "CANN_EMU_API="+release)
		})
	}
}
