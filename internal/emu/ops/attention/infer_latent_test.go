package attention

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// tiles returns a tensor [blocks, 1, D/c0, 128, c0] of rows [tokens, D] that lie in the blocks of a table.
func tiles(t *testing.T, d dtype.Type, blocks int64, table []int64, dim int, rows []float64) *op.Tensor {
	c0 := int(op.DefaultC0(d))
	v := make([]float64, int(blocks)*128*dim)
	for i := range len(rows) / dim {
		block, at := int(table[i/128]), i%128
		for j := range dim {
			v[((block*(dim/c0)+j/c0)*128+at)*c0+j%c0] = rows[i*dim+j]
		}
	}
	return optest.Tensor(t, d, []int64{blocks, 1, int64(dim / c0), 128, int64(c0)}, v...)
}

// latentCall is a decoding step in which all query heads share a key head.
type latentCall struct {
	rows, heads, tokens        int
	query, key, value, qr, kr  []float64
	queryScale                 []float64 // by row and head; nil without
	keyScale, valueScale, mass float64   // mass is the scaleValue
	table                      []int64
}

func newLatentCall(rows, heads, tokens int, d dtype.Type) *latentCall {
	r := rand.New(rand.NewPCG(uint64(rows), uint64(tokens)))
	c := &latentCall{rows: rows, heads: heads, tokens: tokens, keyScale: 1, valueScale: 1, mass: 0.05}
	numbers := func(n int, d dtype.Type) []float64 {
		if d != dtype.Int8 {
			return optest.Normal(r.Uint64(), d, int64(n))
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(r.IntN(255) - 127)
		}
		return v
	}
	c.query, c.key, c.value = numbers(rows*heads*512, d), numbers(tokens*512, d), numbers(tokens*512, d)
	c.qr, c.kr = numbers(rows*heads*64, dtype.BFloat16), numbers(tokens*64, dtype.BFloat16)
	for i := range (tokens + 127) / 128 {
		c.table = append(c.table, int64((tokens+127)/128-i)) // not in order; block 0 is free
	}
	if d == dtype.Int8 {
		c.keyScale, c.valueScale, c.mass = 0.002, 0.03, 0.04
		for range rows * heads {
			c.queryScale = append(c.queryScale, 0.004+0.004*r.Float64())
		}
	}
	return c
}

// want returns the results in float64, how far those of quantised probabilities may be from them, and the logarithms of the sums.
func (c *latentCall) want() (out, reach, log []float64) {
	for i := range c.rows {
		for h := range c.heads {
			at, seen := i*c.heads+h, c.tokens-c.rows+i+1
			scale := c.mass * c.keyScale
			if c.queryScale != nil {
				scale *= float64(float32(c.queryScale[at]))
			}
			scores, most, total := make([]float64, seen), math.Inf(-1), 0.0
			for j := range scores {
				for d := range 512 {
					scores[j] += c.query[at*512+d] * c.key[j*512+d]
				}
				for d := range 64 {
					scores[j] += c.qr[at*64+d] * c.kr[j*64+d]
				}
				scores[j] *= scale
				most = max(most, scores[j])
			}
			for _, s := range scores {
				total += math.Exp(s - most)
			}
			log = append(log, most+math.Log(total))
			row, far := make([]float64, 512), make([]float64, 512)
			for j, s := range scores {
				p := math.Exp(s - most)
				for d := range row {
					v := c.value[j*512+d] * c.valueScale
					row[d] += p * v / total
					far[d] += (0.51/127 + 0x1p-10*p) * math.Abs(v) / total
				}
			}
			out, reach = append(out, row...), append(reach, far...)
		}
	}
	return out, reach, log
}

func (c *latentCall) args(t *testing.T, d dtype.Type) (a optest.Args, out, lse *op.Tensor) {
	blocks, n, h := int64(len(c.table)+1), int64(c.rows), int64(c.heads)
	of := func(d dtype.Type, v []float64, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, v...) }
	result := d
	if d == dtype.Int8 {
		result = dtype.BFloat16
	}
	rope := result
	out, lse = optest.Tensor(t, result, []int64{1, n, h, 512}), optest.Tensor(t, dtype.Float32, []int64{1, h, n, 1})
	a = optest.Args{
		"query": of(d, c.query, 1, n, h, 512), "key": []*op.Tensor{tiles(t, d, blocks, c.table, 512, c.key)}, "value": []*op.Tensor{tiles(t, d, blocks, c.table, 512, c.value)},
		"queryRopeOptional": of(rope, c.qr, 1, n, h, 64), "keyRopeOptional": tiles(t, rope, blocks, c.table, 64, c.kr),
		"blockTableOptional": of(dtype.Int32, optest.Floats(c.table), 1, int64(len(c.table))), "blockSize": 128, "actualSeqLengthsKvOptional": []int64{int64(c.tokens)},
		"numHeads": c.heads, "numKeyValueHeads": 1, "inputLayout": "BSND", "scaleValue": c.mass, "attentionOut": out, "softmaxLse": lse, "softmaxLseFlag": true,
	}
	if c.rows > 1 {
		a["sparseMode"], a["attenMaskOptional"] = 3, triangle(t, 2048)
	}
	if d == dtype.Int8 {
		a["queryQuantMode"], a["dequantScaleQueryOptional"] = 3, of(dtype.Float32, c.queryScale, 1, n, h)
		a["keyAntiquantScaleOptional"], a["valueAntiquantScaleOptional"] = of(dtype.Float32, []float64{c.keyScale}, 1), of(dtype.Float32, []float64{c.valueScale}, 1)
	}
	return a, out, lse
}

// A tiled cache has the results of float64, with int8 queries within the steps of probabilities in int8.
func TestLatentTiles(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int8} {
		for _, size := range [][3]int{{1, 4, 130}, {3, 2, 700}} {
			c := newLatentCall(size[0], size[1], size[2], d)
			a, out, lse := c.args(t, d)
			optest.Run(t, "FusedInferAttentionScoreV4", a)
			want, reach, log := c.want()
			got := optest.Values(out)
			limit := 2 * optest.ResultLimit(out.DType)
			for i := range want {
				far := limit * max(0.2, math.Abs(want[i]))
				if d == dtype.Int8 {
					far += reach[i]
				}
				require.InDelta(t, want[i], got[i], far, "%v %v element %d", d, size, i)
			}
			for i := range c.rows {
				for h := range c.heads {
					require.InDelta(t, log[i*c.heads+h], optest.Values(lse)[h*c.rows+i], 1e-3, "%v %v row %d head %d", d, size, i, h)
				}
			}
		}
	}
}

// Probabilities are whole numbers of 1/127 of the largest in each part of 512 keys: those below half of it vanish.
func TestLatentProbabilitiesAreWhole(t *testing.T) {
	c := newLatentCall(1, 1, 2, dtype.Int8)
	clear(c.query)
	clear(c.qr)
	c.query[0], c.key[0], c.key[512] = 100, 100, 0
	c.queryScale, c.keyScale, c.mass, c.valueScale = []float64{1}, 1, 6.0/10000, 1
	for i := range c.value {
		c.value[i] = 100
		if i < 512 {
			c.value[i] = 0
		}
	}
	a, out, _ := c.args(t, dtype.Int8)
	optest.Run(t, "FusedInferAttentionScoreV4", a)
	require.Zero(t, optest.Values(out)[0], "exp(-6) is below half of 1/127")
	c.mass = 5.0 / 10000
	a, out, _ = c.args(t, dtype.Int8)
	optest.Run(t, "FusedInferAttentionScoreV4", a)
	require.InDelta(t, 100.0/127/(1+math.Exp(-5)), optest.Values(out)[0], 0.005, "exp(-5) becomes 1/127")
}

func TestLatentScaleRefusals(t *testing.T) {
	base, _, _ := newLatentCall(1, 4, 130, dtype.Int8).args(t, dtype.Int8)
	several, _, _ := newLatentCall(2, 4, 130, dtype.Int8).args(t, dtype.Int8)
	float := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float32, shape...) }
	for text, changes := range map[string]optest.Args{
		"needs dequantScaleQuery":                        {"dequantScaleQueryOptional": nil},
		"needs dequantScaleQuery, keyAntiquantScale":     {"keyAntiquantScaleOptional": nil},
		"must be float32 [1,1,4] when":                   {"dequantScaleQueryOptional": float(1, 4)},
		"must be float32 [1] when":                       {"valueAntiquantScaleOptional": float(1, 1)},
		"the query's quant mode should be 3":             {"queryQuantMode": 0},
		"the key's quant mode":                           {"keyAntiquantMode": 1, "valueAntiquantMode": 1},
		"keyAntiquantOffset should be null":              {"keyAntiquantOffsetOptional": float(1), "valueAntiquantOffsetOptional": float(1)},
		"deqScale1 should be null":                       {"deqScale1Optional": float(1)},
		"sparseMode(3) only support 0":                   {"sparseMode": 3, "attenMaskOptional": triangle(t, 2048)},
		"the query's dequant scale should be null":       {"query": withType(t, dtype.BFloat16, 1, 1, 4, 512), "key": []*op.Tensor{withType(t, dtype.BFloat16, 3, 1, 32, 128, 16)}, "value": []*op.Tensor{withType(t, dtype.BFloat16, 3, 1, 32, 128, 16)}, "keyAntiquantScaleOptional": nil, "valueAntiquantScaleOptional": nil},
		"KV layout must be NZ":                           {"key": []*op.Tensor{withType(t, dtype.Int8, 3, 128, 512)}, "value": []*op.Tensor{withType(t, dtype.Int8, 3, 128, 512)}, "keyRopeOptional": withType(t, dtype.BFloat16, 3, 128, 64)},
		"[blocks, numKeyValueHeads, D/32, blockSize, 32": {"key": []*op.Tensor{withType(t, dtype.Int8, 3, 1, 32, 128, 16)}},
	} {
		optest.Refused(t, op.TilingRefused, "FusedInferAttentionScoreV4", base.With(changes), text)
	}
	optest.Refused(t, op.TilingRefused, "FusedInferAttentionScoreV4", several.With(optest.Args{"sparseMode": 0, "attenMaskOptional": nil}), "several int8 query tokens")
}
