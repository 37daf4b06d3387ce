package attention

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// late asserts that phase one accepts the call and phase two returns 561103.
func late(t testing.TB, name string, a optest.Args, texts ...string) {
	t.Helper()
	e, err := optest.Prepare(t, name, a)
	require.NoError(t, err)
	require.NotNil(t, e.Call.LaunchErr(), "phase two accepts the call")
	var refusal *op.Error
	require.True(t, errors.As(e.Call.LaunchErr(), &refusal))
	require.Equal(t, int32(561103), refusal.Code, refusal.Text)
	for _, s := range append(texts, "aclnn"+name) {
		require.Contains(t, refusal.Text, s)
	}
}

// plain returns a valid call: BNSD, float16, B 2, N 4, Nkv 2, S 8, D 16.
func plain() trial {
	return trial{layout: "BNSD", dtype: dtype.Float16, heads: 4, keyHeads: 2, dim: 16, valDim: 16, rows: []int64{8, 8}, cols: []int64{8, 8}}
}

func packedPlain() trial {
	x := plain()
	x.layout, x.rows, x.cols = "TND", []int64{8, 4}, []int64{8, 6}
	return x
}

// The codes of phase one are the same in both directions for rules that both check.
func TestFlashAttentionPhaseOne(t *testing.T) {
	none := (*op.Tensor)(nil)
	for _, c := range []struct {
		name     string
		change   optest.Args
		code     int32
		forward  string // part of the text; empty: passes or concerns the other direction
		backward string
	}{
		{"query null", optest.Args{"query": none}, 161001, "query is null", "query is null"},
		{"key null", optest.Args{"key": none}, 161001, "key is null", "keyIn is null"},
		{"value null", optest.Args{"value": none}, 161001, "value is null", "value is null"},
		{"layout null", optest.Args{"inputLayout": nil}, 161001, "inputLayout is null", "inputLayout is null"},
		{"out null", optest.Args{"attentionOutOut": none}, 161001, "attentionOutOut is null", "attentionInOptional is null"},
		{"max null", optest.Args{"softmaxMaxOut": none}, 161001, "softmaxMaxOut is null", "softmaxMax or softmaxSum is null"},
		{"sum null", optest.Args{"softmaxSumOut": none}, 161001, "softmaxSumOut is null", "softmaxMax or softmaxSum is null"},
		{"dy null", optest.Args{"dy": none}, 161001, "", "dy is null"},
		{"dq null", optest.Args{"dqOut": none}, 161001, "", "dqOut is null"},
		{"dtypes differ", optest.Args{"key": optest.Tensor(t, dtype.BFloat16, []int64{2, 2, 8, 16})}, 161002, "The data type of query[float16], key[bfloat16]", "are not equal"},
		{"lower case", optest.Args{"inputLayout": "bnsd"}, 161002, "not support input_layout", "not support input_layout"},
		{"unknown layout", optest.Args{"inputLayout": "BND"}, 161002, "not support input_layout", "not support input_layout"},
		{"rank", optest.Args{"inputLayout": "BSH"}, 161002, "not support input_layout BSH with dim_num 4", "not support input_layout BSH"},
		{"packed without lengths", optest.Args{"inputLayout": "TND"}, 161002, "VarLenScore", "UnpaddingScoreGrad"},
		{"headNum 0", optest.Args{"headNum": 0}, 161002, "head_num must > 0, but got 0", "Invalid HeadNum"},
		{"headNum -1", optest.Args{"headNum": -1}, 161002, "head_num must > 0", "Invalid HeadNum"},
		{"D of key", optest.Args{"key": optest.Tensor(t, dtype.Float16, []int64{2, 2, 8, 17}), "dkOut": optest.Tensor(t, dtype.Float16, []int64{2, 2, 8, 17})}, 161002, "qD and kD should be same", "qD and kD should be same"},
		{"Dv > D", optest.Args{"value": optest.Tensor(t, dtype.Float16, []int64{2, 2, 8, 17}), "dvOut": optest.Tensor(t, dtype.Float16, []int64{2, 2, 8, 17})}, 161002, "only support kD >= vD", "only support kD >= vD"},
		{"pse dtype", optest.Args{"realShiftOptional": optest.Tensor(t, dtype.Float32, []int64{1, 4, 8, 8})}, 161002, "The data type float32 of pse is not", "The data type float32 of pse is not"},
		{"out shape", optest.Args{"attentionOutOut": optest.Tensor(t, dtype.Float16, []int64{2, 4, 8, 15})}, 161002, "must have shape [2,4,8,16]", ""},
		{"dq shape", optest.Args{"dqOut": optest.Tensor(t, dtype.Float16, []int64{2, 4, 8, 15})}, 161002, "", "shapes differ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := plain()
			v, a := x.start(t)
			change := maps.Clone(c.change)
			gradOnly := optest.Args{}
			for _, name := range []string{"dy", "dqOut", "dkOut", "dvOut"} {
				if value, ok := change[name]; ok {
					gradOnly[name] = value
					delete(change, name)
				}
			}
			a = a.With(change)
			if c.forward != "" {
				optest.Refused(t, c.code, x.forward(), a, c.forward)
			}
			if c.backward != "" {
				optest.Refused(t, c.code, x.backward(), v.backwardArgs(a).With(gradOnly), c.backward)
			}
		})
	}
	t.Run("D 769", func(t *testing.T) {
		x := trial{layout: "BSND", dtype: dtype.Float16, heads: 1, keyHeads: 1, dim: 769, valDim: 8, rows: []int64{2}, cols: []int64{2}}
		_, a := x.start(t)
		optest.Refused(t, 161002, x.forward(), a, "Head dim must <= 768")
	})
	t.Run("documented limits", func(t *testing.T) {
		for _, c := range []struct {
			version    string
			heads, dim int64
			text       string
		}{
			{"", 257, 8, "has 257 heads; 256 are supported"}, {"V2", 1, 520, "dSize is not in range:(0, 512]"}, {"", 1, 769, "dSize is not in range:(0, 768]"},
		} {
			x := trial{layout: "BNSD", version: c.version, dtype: dtype.Float16, heads: c.heads, keyHeads: 1, dim: c.dim, valDim: 8, rows: []int64{2}, cols: []int64{2}}
			v, a := x.start(t)
			if c.version == "V2" {
				a["pseType"] = 1
			}
			optest.Refused(t, 161001, x.backward(), v.backwardArgs(a), c.text)
			if c.dim <= maxHeadDim {
				require.ErrorContains(t, optest.Execute(t, x.forward(), a), c.text)
			}
		}
	})
	t.Run("slopes", func(t *testing.T) {
		x := plain()
		x.version = "V2"
		v, a := x.start(t)
		a["pseType"] = 2
		optest.Refused(t, 161002, x.forward(), a, "When pseType is 2 or 3, pseShape cannot be null")
		a["realShiftOptional"] = optest.Tensor(t, dtype.Float16, []int64{4})
		optest.Refused(t, 161002, x.forward(), a, "It must be float32")
		optest.Refused(t, 161002, x.backward(), v.backwardArgs(a), "It must be float32")
	})
	t.Run("VarLen takes TND alone", func(t *testing.T) {
		x := plain()
		v, a := x.start(t)
		optest.Refused(t, 161002, "FlashAttentionVarLenScore", a, "is not TND, invalid shape")
		optest.Refused(t, 161002, "FlashAttentionUnpaddingScoreGrad", v.backwardArgs(a), "is not TND, invalid shape")
	})
}

// Violations of the tiling's rules are reported in phase two with 561103 by the forward operators,
// and in phase one with 161001 by the backward ones.
func TestFlashAttentionTiling(t *testing.T) {
	mask := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Bool, shape, 0) }
	half := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 0) }
	for _, c := range []struct {
		name     string
		trial    func() trial
		change   optest.Args
		forward  string // part of the text; empty: passes
		backward string
	}{
		{"batch of key", plain, optest.Args{"key": half(3, 2, 8, 16), "dkOut": half(3, 2, 8, 16)}, "query or key shape is invalid", "query or key shape is invalid"},
		{"length of value", plain, optest.Args{"value": half(2, 2, 9, 16), "dvOut": half(2, 2, 9, 16)}, "key or value shape is invalid", "key or value shape is invalid"},
		{"headNum 5", plain, optest.Args{"headNum": 5}, "head_num is [5], but got query dim1 [4]", "head_num is [5]"},
		{"head groups", plain, optest.Args{"key": half(2, 3, 8, 16), "value": half(2, 3, 8, 16), "dkOut": half(2, 3, 8, 16), "dvOut": half(2, 3, 8, 16)}, "n1Size [4] should be a multiple of n2Size [3]", "n1Size [4] should be"},
		{"keepProb 1.2", plain, optest.Args{"keepProb": 1.2}, "keepProb value must be in range of (0, 1]", "keepProb is illegal"},
		{"keepProb 0", plain, optest.Args{"keepProb": 0.0}, "keepProb value must be in range of (0, 1]", "keepProb is illegal"},
		{"mask rank", plain, optest.Args{"attenMaskOptional": mask(2, 8, 8)}, "atten mask dim should be 2 or 4, but got 3", "atten mask dim num error"},
		{"mask dtype", plain, optest.Args{"attenMaskOptional": optest.Tensor(t, dtype.Int8, []int64{8, 8}, 0)}, "invalid attenMask dtype[int8], only support bool or uint8", "invalid attenMask dtype[int8]"},
		{"mask [B,1,1,Skv]", plain, optest.Args{"attenMaskOptional": mask(2, 1, 1, 8)}, "get unsupported atten_mask shape, the shape is [2,1,1,8]. B=[2], N=[4], Sq=[8], Skv=[8]; legal: [[8,8] [1,1,8,8] [2,1,8,8] [2,4,8,8]]", "atten mask shape [1,8] is invalid"},
		{"mask [1,N,S,S]", plain, optest.Args{"attenMaskOptional": mask(1, 4, 8, 8)}, "get unsupported atten_mask shape", ""},
		{"mask [1000,1000]", plain, optest.Args{"attenMaskOptional": mask(1000, 1000)}, "get unsupported atten_mask shape", "atten mask shape [1000,1000] is invalid"},
		{"mode 2, dense", plain, optest.Args{"sparseMode": 2, "attenMaskOptional": mask(8, 8)}, "In the attenmask compression, please set the atten_mask_shape to [2048,2048]", "try setting it to [2048, 2048]"},
		{"mode 3, [B,1,S,S]", plain, optest.Args{"sparseMode": 3, "attenMaskOptional": mask(2, 1, 8, 8)}, "please set the atten_mask_shape to [2048,2048]", "try setting it to [2048, 2048]"},
		{"mode 2, not square", plain, optest.Args{"sparseMode": 2, "attenMaskOptional": mask(8, 9)}, "please set the atten_mask_shape to [2048,2048]", "atten mask shape is not square"},
		{"mode 2, [1,1,2048,2048]", plain, optest.Args{"sparseMode": 2, "attenMaskOptional": wide(triangle(t, 2048))}, "get unsupported atten_mask shape", ""},
		{"mode 6, [2048,2048]", plain, optest.Args{"sparseMode": 6, "attenMaskOptional": triangle(t, 2048), "prefixOptional": []int64{1, 1}}, "In the prefix attenmask compression", "try setting it to [3072, 2048]"},
		{"mode 6 without prefix", plain, optest.Args{"sparseMode": 6, "attenMaskOptional": triangle(t, 3072)}, "prefix has 0 values", "prefix has 0 values"},
		{"mode 6, prefix -1", plain, optest.Args{"sparseMode": 6, "attenMaskOptional": triangle(t, 3072), "prefixOptional": []int64{-1, 1}}, "prefix[0] is -1", ""},
		{"mode 6, prefix 9", plain, optest.Args{"sparseMode": 6, "attenMaskOptional": triangle(t, 3072), "prefixOptional": []int64{8, 9}}, "prefix[1] is 9", ""},
		{"mode 5, shared mask", plain, optest.Args{"sparseMode": 5, "attenMaskOptional": mask(8, 8)}, "should be [BNSS] or [B1SS]", ""},
		{"mode 7 outside TND", plain, optest.Args{"sparseMode": 7, "attenMaskOptional": triangle(t, 2048)}, "Not support sparse mode of 7", "not support sparsemode 7"},
		{"mode -1", plain, optest.Args{"sparseMode": -1, "attenMaskOptional": mask(8, 8)}, "Not support sparse mode of -1", "FAG sparseMode [-1] is invalid"},
		{"mode 99", plain, optest.Args{"sparseMode": 99, "attenMaskOptional": mask(8, 8)}, "Not support sparse mode of 99", "FAG sparseMode [99] is invalid"},
		{"mode 99 without mask", plain, optest.Args{"sparseMode": 99}, "", "FAG sparseMode [99] is invalid"},
		{"window -5,-5", plain, optest.Args{"sparseMode": 4, "preTokens": -5, "nextTokens": -5, "attenMaskOptional": triangle(t, 2048)}, "there is no valid data block", "pre_token and next_token is invalid in the pad scene"},
		{"window 5,-6", plain, optest.Args{"sparseMode": 4, "preTokens": 5, "nextTokens": -6, "attenMaskOptional": triangle(t, 2048)}, "there is no valid data block", "in the pad scene"},
		{"window -1,5", plain, optest.Args{"sparseMode": 4, "preTokens": -1, "nextTokens": 5, "attenMaskOptional": triangle(t, 2048)}, "", ""},
		{"window 5,-1", plain, optest.Args{"sparseMode": 4, "preTokens": 5, "nextTokens": -1, "attenMaskOptional": triangle(t, 2048)}, "", ""},
		{"window -8,9", plain, optest.Args{"sparseMode": 0, "preTokens": -8, "nextTokens": 9, "attenMaskOptional": mask(8, 8)}, "there is no valid data block", ""},
		{"dropMask dtype", plain, optest.Args{"dropMaskOptional": mask(64), "keepProb": 0.5}, "invalid dropMask dtype[bool]", "invalid dropMask dtype[bool]"},
		{"dropMask size", plain, optest.Args{"dropMaskOptional": optest.Tensor(t, dtype.Uint8, []int64{63}, 1), "keepProb": 0.5}, "Input dropMask shapeSize is invalid", "Input dropMask shapeSize is invalid"},
		{"pse rank", plain, optest.Args{"realShiftOptional": half(4, 8, 8)}, "pse dim should be 4", "pse dim should be 4"},
		{"pse batch", plain, optest.Args{"realShiftOptional": half(3, 4, 8, 8)}, "pse batchsize should be 1 or 2", "pse batchsize should be 1 or 2"},
		{"pse shape", plain, optest.Args{"realShiftOptional": half(2, 4, 7, 8)}, "get unsupported pse shape", "get unsupported pse shape"},

		{"no lengths", packedPlain, optest.Args{"actualSeqQLenOptional": nil}, "actualSeqQLen or actualSeqKvLen is null or empty", "actualSeqQLen or actualSeqKvLen is null"},
		{"unequal lists", packedPlain, optest.Args{"actualSeqQLenOptional": []int64{8}}, "VarLen scene, q is not equal kv", "VarLen scene, q is not equal kv"},
		{"too few tokens", packedPlain, optest.Args{"actualSeqQLenOptional": []int64{8, 13}}, "Query T(12) and key T(14) need larger than", "Query T(12)"},
		{"packed mask", packedPlain, optest.Args{"sparseMode": 1, "attenMaskOptional": mask(9, 8)}, "MaxSq=[8], MaxSkv=[8]", "atten mask shape [9,8] is invalid"},
		{"packed mode 3, Sq > Skv", packedPlain, optest.Args{"sparseMode": 3, "attenMaskOptional": triangle(t, 2048), "actualSeqKvLenOptional": []int64{7, 14}}, "Batch[0] s1[8] is larger than s2[7], exist invalid row", ""},
		{"packed mode 2, Sq > Skv", packedPlain, optest.Args{"sparseMode": 2, "attenMaskOptional": triangle(t, 2048), "actualSeqKvLenOptional": []int64{7, 14}}, "", ""},
		{"packed mode 5", packedPlain, optest.Args{"sparseMode": 5, "attenMaskOptional": mask(8, 8)}, "Var len not support sparse mode 5", "not support sparsemode 5"},
		{"packed mode 9", packedPlain, optest.Args{"sparseMode": 9, "attenMaskOptional": mask(2048, 2048)}, "Var len not support sparse mode 9", "FAG sparseMode [9] is invalid"},
		{"packed mode 0, next < 0", packedPlain, optest.Args{"sparseMode": 0, "nextTokens": -1, "attenMaskOptional": mask(8, 8)}, "see nothing with sparseMode 0", ""},
		{"packed mode 4, pre + next = 0", packedPlain, optest.Args{"sparseMode": 4, "preTokens": 0, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)}, "", "in the unpad scene"},
		{"packed mode 4, pre < 0", packedPlain, optest.Args{"sparseMode": 4, "preTokens": -1, "nextTokens": 5, "attenMaskOptional": triangle(t, 2048)}, "see nothing with sparseMode 4", ""},
		{"packed mode 7, pre < Skv", packedPlain, optest.Args{"sparseMode": 7, "preTokens": 5, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)}, "see nothing with sparseMode 7", ""},
		{"packed mode 8, pre < Skv", packedPlain, optest.Args{"sparseMode": 8, "preTokens": 7, "nextTokens": 0, "attenMaskOptional": triangle(t, 2048)}, "see nothing with sparseMode 8", ""},
		{"packed pse", packedPlain, optest.Args{"realShiftOptional": half(7)}, "get unsupported pse shape", "get unsupported pse shape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := c.trial()
			v, a := x.start(t)
			change, gradOnly := maps.Clone(c.change), optest.Args{}
			for _, name := range []string{"dkOut", "dvOut"} {
				if value, ok := change[name]; ok {
					gradOnly[name] = value
					delete(change, name)
				}
			}
			a = a.With(change)
			if c.forward != "" {
				late(t, x.forward(), a, c.forward)
			} else {
				optest.Run(t, x.forward(), a)
			}
			b := v.backwardArgs(a).With(gradOnly)
			switch {
			case c.backward != "":
				optest.Refused(t, 161001, x.backward(), b, c.backward)
			case c.forward == "":
				optest.Run(t, x.backward(), b)
			}
		})
	}
	t.Run("BSH with a headNum that does not divide", func(t *testing.T) {
		x := plain()
		x.layout, x.keyHeads = "BSH", x.heads
		v, a := x.start(t)
		a["headNum"] = 5
		late(t, x.forward(), a, "h1 [64] should be a multiple of n1Size [5]")
		optest.Refused(t, 161001, x.backward(), v.backwardArgs(a), "h1 [64] should be a multiple of")
	})
	t.Run("dtype", func(t *testing.T) {
		x := plain()
		x.dtype = dtype.Int32
		_, a := x.start(t)
		late(t, x.forward(), a, "not support input dtype")
	})
	t.Run("pseType", func(t *testing.T) {
		x := plain()
		x.version = "V2"
		_, a := x.start(t)
		late(t, x.forward(), a.With(optest.Args{"pseType": 0}), "Get PseInput is nullptr, but pseType is not default=1")
		late(t, x.forward(), a.With(optest.Args{"pseType": 4}), "pseType value is out of range")
	})
}

// wide adds two leading dimensions to a mask.
func wide(m *op.Tensor) *op.Tensor {
	m.Shape, m.Strides = append([]int64{1, 1}, m.Shape...), append([]int64{0, 0}, m.Strides...)
	return m
}

// Statistics and outputs of a wrong shape are refused.
func TestFlashAttentionStatisticsShape(t *testing.T) {
	x := plain()
	v, a := x.start(t)
	a["softmaxMaxOut"] = optest.Tensor(t, dtype.Float32, []int64{2, 4, 8, 1})
	optest.Refused(t, 161002, x.forward(), a, "softmaxMaxOut", "[2,4,8,8]")
	optest.Refused(t, 161001, x.backward(), v.backwardArgs(a), "The shape or dtype of softmaxMaxOptional", "B,N,S,8")
	y := packedPlain()
	w, b := y.start(t)
	b["softmaxSumOut"] = optest.Tensor(t, dtype.Float32, []int64{4, 12, 8})
	optest.Refused(t, 161002, y.forward(), b, "[12,4,8]")
	optest.Refused(t, 161001, y.backward(), w.backwardArgs(b), "T,N,8")
}

func TestFlashAttentionEmpty(t *testing.T) {
	t.Run("all outputs empty: nothing is checked or launched", func(t *testing.T) {
		a := optest.Args{
			"query": optest.Tensor(t, dtype.Float16, []int64{0}), "key": optest.Tensor(t, dtype.BFloat16, []int64{0}), "value": optest.Tensor(t, dtype.Float16, []int64{0}), "inputLayout": "?",
			"softmaxMaxOut": optest.Tensor(t, dtype.Float32, []int64{0}), "softmaxSumOut": optest.Tensor(t, dtype.Float32, []int64{0}), "attentionOutOut": optest.Tensor(t, dtype.Float16, []int64{0}),
		}
		e, err := optest.Prepare(t, "FlashAttentionScore", a)
		require.NoError(t, err)
		require.Zero(t, e.Call.WorkspaceSize())
		optest.Run(t, "FlashAttentionScore", a)
	})
	for _, layout := range []string{"BSH", "SBH", "BSND", "BNSD"} {
		t.Run("no keys/"+layout, func(t *testing.T) {
			x := plain()
			x.layout, x.cols = layout, []int64{0, 0}
			v, a := x.start(t)
			a["keepProb"], a["sparseMode"], a["attenMaskOptional"] = 7.0, 99, optest.Tensor(t, dtype.Int8, []int64{3}, 1)
			optest.Run(t, x.forward(), a)
			for _, out := range []*op.Tensor{v.out, v.max, v.sum} {
				require.Equal(t, make([]float64, out.Len()), optest.Values(out))
			}
			a["keepProb"], a["sparseMode"], a["attenMaskOptional"] = 1.0, 0, nil
			optest.Run(t, x.backward(), v.backwardArgs(a))
			require.Equal(t, make([]float64, v.dq.Len()), optest.Values(v.dq))
		})
		t.Run("no queries/"+layout, func(t *testing.T) {
			x := plain()
			x.layout, x.rows = layout, []int64{0, 0}
			v, a := x.start(t)
			optest.Run(t, x.forward(), a)
			optest.Run(t, x.backward(), v.backwardArgs(a))
			require.Equal(t, make([]float64, v.dk.Len()), optest.Values(v.dk))
			require.Equal(t, make([]float64, v.dv.Len()), optest.Values(v.dv))
		})
	}
}

// Optional tensors without dimensions count as absent.
func TestFlashAttentionScalarOptionals(t *testing.T) {
	x := plain()
	v, a := x.start(t)
	optest.Run(t, x.forward(), a)
	want := optest.Values(v.out)
	for _, name := range []string{"realShiftOptional", "dropMaskOptional", "paddingMaskOptional", "attenMaskOptional"} {
		a[name] = optest.Tensor(t, dtype.Int64, nil, 5)
	}
	optest.Run(t, x.forward(), a)
	require.Equal(t, want, optest.Values(v.out))
}

// Any combination of sparse mode and sizes is either refused with a code or computed by the rule,
// without a crash.
func FuzzFlashAttentionRules(f *testing.F) {
	for mode := range int64(10) {
		f.Add(mode, int64(5), int64(2), int64(3), uint8(9), uint8(14), mode%2 == 0)
		f.Add(mode, int64(-3), int64(4), int64(0), uint8(14), uint8(9), mode%2 == 1)
		f.Add(mode, int64(1)<<62, int64(-1)<<62, int64(1)<<40, uint8(200), uint8(100), false)
	}
	f.Fuzz(func(t *testing.T, mode, pre, next, prefix int64, rows, cols uint8, packed bool) {
		r, c := int64(rows), int64(cols)
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 1, keyHeads: 1, dim: 2, valDim: 2, rows: []int64{r}, cols: []int64{c}}
		if packed {
			x.layout = "TND"
		}
		mask := triangle(t, 2048)
		switch mode {
		case 0, 1, 5:
			mask.Shape = []int64{r, c}
			mask.Strides = []int64{0, 1}
			optest.Fill(mask, 0)
		case 6:
			mask = triangle(t, 3072)
		}
		x.args = optest.Args{"sparseMode": mode, "preTokens": pre, "nextTokens": next, "prefixOptional": []int64{prefix}, "attenMaskOptional": mask, "innerPrecise": 2}
		x.zero = true
		clamp := func(n int64) int64 { return max(min(n, 1<<30), -1<<30) }
		x.visible = func(_ int, _, i, j int64) bool {
			m := mode
			if m >= 7 {
				m = 4
			}
			return modeRule(m, clamp(pre), clamp(next), prefix, r, c, i, j)
		}
		v, a := x.start(t)
		for _, call := range []struct {
			name string
			args optest.Args
		}{{x.forward(), a}, {x.backward(), v.backwardArgs(a)}} {
			err := optest.Execute(t, call.name, call.args)
			if err == nil {
				continue
			}
			var e *op.Error
			require.True(t, errors.As(err, &e), "%v", err)
			require.Contains(t, []int32{161001, 161002, 561103}, e.Code, e.Text)
			require.NotContains(t, e.Text, "internal error", fmt.Sprint(call.args))
			return
		}
		x.check(t)
	})
}
