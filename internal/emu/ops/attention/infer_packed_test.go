package attention

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// joined returns [tokens, heads, a+b] of two tensors of as many tokens and heads.
func joined(t *testing.T, a, b *op.Tensor) *op.Tensor {
	var v []float64
	n, m := int(a.Dim(2)), int(b.Dim(2))
	for i := range int(a.Dim(0) * a.Dim(1)) {
		v = append(append(v, optest.Row(optest.Values(a), n, i)...), optest.Row(optest.Values(b), m, i)...)
	}
	return optest.Tensor(t, a.DType, []int64{a.Dim(0), a.Dim(1), a.Dim(2) + b.Dim(2)}, v...)
}

// Rotated features apart give the scores of heads that hold all features.
func TestAttentionWithRotatedFeaturesApart(t *testing.T) {
	for _, d := range inferTypes {
		filled := func(seed uint64, shape ...int64) *op.Tensor {
			return optest.Tensor(t, d, shape, optest.Normal(seed, d, op.Count(shape))...)
		}
		q, k, v, qRope, kRope := filled(1, 5, 2, 128), filled(2, 7, 1, 128), filled(3, 7, 1, 128), filled(4, 5, 2, 64), filled(5, 7, 1, 64)
		out, want := optest.Tensor(t, d, []int64{5, 2, 128}), optest.Tensor(t, d, []int64{5, 2, 128})
		a := optest.Args{"query": q, "key": []*op.Tensor{k}, "value": []*op.Tensor{v}, "numHeads": 2, "numKeyValueHeads": 1, "inputLayout": "TND", "scaleValue": 0.1,
			"actualSeqLengthsOptional": []int64{2, 5}, "actualSeqLengthsKvOptional": []int64{4, 7}}
		optest.Run(t, "FusedInferAttentionScoreV3", a.With(optest.Args{"queryRopeOptional": qRope, "keyRopeOptional": kRope, "attentionOut": out}))
		optest.Run(t, "FusedInferAttentionScoreV3", a.With(optest.Args{"query": joined(t, q, qRope), "key": []*op.Tensor{joined(t, k, kRope)}, "attentionOut": want}))
		optest.CloseTo(t, d.String(), optest.Values(want), optest.Values(out), optest.ResultLimit(d))
	}
}

func TestPackedInferenceRefusals(t *testing.T) {
	of := func(shape ...int64) *op.Tensor { return withType(t, dtype.BFloat16, shape...) }
	list := func(shape ...int64) []*op.Tensor { return []*op.Tensor{of(shape...)} }
	name := "FusedInferAttentionScoreV3"
	base := optest.Args{"query": of(5, 2, 64), "key": list(7, 1, 64), "value": list(7, 1, 64), "numHeads": 2, "numKeyValueHeads": 1, "inputLayout": "TND", "attentionOut": of(5, 2, 64),
		"actualSeqLengthsOptional": []int64{2, 5}, "actualSeqLengthsKvOptional": []int64{4, 7}}
	mask := optest.Args{"attenMaskOptional": triangle(t, 2048)}
	many := make([]int64, 4097)
	many[4096] = 5
	longer := append(make([]int64, 4096), 7)
	rope := optest.Args{"queryRopeOptional": of(5, 2, 64), "keyRopeOptional": of(7, 1, 64)}
	wide := func(d int64) optest.Args {
		return rope.With(optest.Args{"query": of(5, 2, d), "key": list(7, 1, d), "value": list(7, 1, d), "attentionOut": of(5, 2, d)})
	}
	latent := func(heads, keyHeads, block int64, changes optest.Args) optest.Args {
		return optest.Args{"query": of(2, 3, heads*512), "queryRopeOptional": of(2, 3, heads*64), "attentionOut": of(2, 3, heads*512), "numHeads": heads, "numKeyValueHeads": keyHeads, "inputLayout": "BSH",
			"key": list(2, block, keyHeads*512), "value": list(2, block, keyHeads*512), "keyRopeOptional": of(2, block, keyHeads*64), "blockTableOptional": withType(t, dtype.Int32, 2, 1), "blockSize": block,
			"actualSeqLengthsOptional": nil, "actualSeqLengthsKvOptional": []int64{3, 4}}.With(changes)
	}
	optest.Run(t, name, base)
	optest.Run(t, name, base.With(mask).With(optest.Args{"sparseMode": 3}))
	optest.Run(t, name, base.With(wide(128)))
	optest.Run(t, name, base.With(latent(4, 1, 128, nil)))
	optest.Run(t, name, base.With(latent(128, 1, 16, nil)))
	long := optest.Args{"query": of(2, 3, 2*192), "key": list(2, 7, 192), "value": list(2, 7, 128), "inputLayout": "BSH", "attentionOut": of(2, 3, 2*128), "actualSeqLengthsOptional": nil, "actualSeqLengthsKvOptional": nil}
	optest.Run(t, name, base.With(long))
	for _, c := range []struct {
		changes optest.Args
		text    string
	}{
		{optest.Args{"actualSeqLengthsOptional": many, "actualSeqLengthsKvOptional": longer}, "less than or equal to 4096"},
		{optest.Args{"actualSeqLengthsOptional": []int64{2, 4}}, "queryT(5) must be equal to the last element of actualSequenceLengthQ(4)"},
		{optest.Args{"actualSeqLengthsKvOptional": []int64{4, 6}}, "keyT(7) must be equal"},
		{mask, "sparseMode = 0 not support attentionMask"},
		{mask.With(optest.Args{"sparseMode": 2}), "sparseMode only support 0,3 or 4"},
		{mask.With(optest.Args{"sparseMode": 3, "actualSeqLengthsKvOptional": []int64{1, 7}}), "need s1[2] <= s2[1]"},
		{mask.With(optest.Args{"sparseMode": 4, "preTokens": 1, "nextTokens": -2}), "The sum of preTokens[1] and nextTokens[-2]"},
		{mask.With(optest.Args{"sparseMode": 4, "preTokens": -3, "nextTokens": 4}), "actualSeqLen[2] + preTokens[-3]"},
		{optest.Args{"value": list(7, 1, 16), "attentionOut": of(5, 2, 16)}, "queryD(64) and valueD(16) must be same equal 192/128/64"},
		{wide(32), "queryRopeD(64) must be 64"},
		{optest.Args{"query": of(5, 2, 96), "key": list(7, 1, 96), "value": list(7, 1, 96), "attentionOut": of(5, 2, 96)}, "queryD(96) and valueD(96)"},
		{latent(4, 1, 128, optest.Args{"query": of(2, 17, 4*512), "queryRopeOptional": of(2, 17, 4*64), "attentionOut": of(2, 17, 4*512)}), "sequence 0 has 17 query tokens"},
		{latent(3, 1, 128, nil), "1, 2, 4 or more query heads"},
		{latent(4, 2, 128, nil), "one key head"},
		{latent(4, 1, 128, optest.Args{"keyRopeOptional": of(2, 128, 32), "queryRopeOptional": of(2, 3, 4*32)}), "queryRopeD(32) must be 64"},
	} {
		optest.Refused(t, op.TilingRefused, name, base.With(c.changes), c.text)
	}
	paged := optest.Args{"key": list(2, 256, 64), "value": list(2, 256, 64), "blockTableOptional": withType(t, dtype.Int32, 2, 1), "actualSeqLengthsKvOptional": []int64{3, 4}, "blockSize": 256}
	optest.Refused(t, op.TilingRefused, name, base.With(paged), "a multiple of 16 up to 128")
	paged["key"], paged["value"], paged["blockSize"] = list(2, 128, 64), list(2, 128, 64), 128
	optest.Run(t, name, base.With(paged))
}
