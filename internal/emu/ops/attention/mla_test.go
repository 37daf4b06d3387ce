package attention

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/half"
)

// latentTest has which tensors of a MlaProlog are integers.
type latentTest struct {
	name                        string
	x, up, cache, rope, query   bool
	tiled, flat, smooth, stored bool   // PA_NZ cache; tokens without sequences; smoothing; weights with their storage shape
	mode                        string // of the cache
	tile, low, plain            bool   // a scale for each tile of the cache; the normed low-rank queries are asked for; no rotation
}

const (
	latentTokens, latentHidden, latentRank, latentHeads, latentDim, latentRope, latentKey = 4, 32, 64, 2, 16, 32, 64
	latentPages, latentPage                                                               = 3, 2
)

// weight returns a matrix of small numbers and its tensor.
func (l latentTest) weight(t *testing.T, seed uint64, rows, cols int64, integers bool) ([]float64, *op.Tensor) {
	d, c0 := dtype.BFloat16, int64(16)
	v := optest.Normal(seed, d, rows*cols)
	if integers {
		d, c0, v = dtype.Int8, 32, optest.Int8s(int(seed), int(rows*cols))
	}
	plain := optest.Tensor(t, d, []int64{rows, cols}, v...)
	if !strings.HasSuffix(l.name, "Nz") && l.name != "MlaProlog" {
		return v, plain
	}
	w := optest.NZ(t, d, []int64{rows, cols}, false, c0)
	optest.StoreNZ(t, w, plain)
	if l.stored {
		w.Shape, w.Strides = w.Storage, op.ContiguousStrides(w.Storage)
	}
	return v, w
}

// rms returns the RMS norm of rows.
func rms(x, gamma []float64, eps float64) []float64 {
	n, out := len(gamma), make([]float64, len(x))
	for first := 0; first < len(x); first += n {
		sum := 0.0
		for _, v := range x[first : first+n] {
			sum += v * v
		}
		for i, v := range x[first : first+n] {
			out[first+i] = v / math.Sqrt(sum/float64(n)+eps) * gamma[i]
		}
	}
	return out
}

// rotatedPairs rotates the pairs of neighbours in a row.
func rotatedPairs(x, cos, sin []float64) []float64 {
	half, out := len(x)/2, make([]float64, len(x))
	for i := range half {
		out[i] = x[2*i]*cos[i] - x[2*i+1]*sin[i]
		out[half+i] = x[2*i+1]*cos[half+i] + x[2*i]*sin[half+i]
	}
	return out
}

// times multiplies sums by factors of rows and columns; nil factors are 1.
func times(x, rows, columns []float64, n int) []float64 {
	for i := range x {
		if rows != nil {
			x[i] *= rows[i/n]
		}
		if columns != nil {
			x[i] *= columns[i%n]
		}
	}
	return x
}

func TestMlaProlog(t *testing.T) {
	for _, l := range []latentTest{
		{name: "MlaProlog"}, {name: "MlaProlog", up: true, smooth: true, flat: true, stored: true}, {name: "MlaProlog", up: true, cache: true, rope: true, tiled: true},
		{name: "MlaPrologV2"}, {name: "MlaPrologV2WeightNz", x: true, up: true, tiled: true, flat: true}, {name: "MlaPrologV2WeightNz", x: true, up: true, cache: true, query: true, smooth: true},
		{name: "MlaPrologV2WeightNz", up: true, cache: true, rope: true, smooth: true}, {name: "MlaPrologV3WeightNz"}, {name: "MlaPrologV3WeightNz", up: true, cache: true, rope: true, tiled: true},
		{name: "MlaPrologV3", tiled: true}, {name: "MlaPrologV3WeightNz", x: true, up: true, cache: true, query: true, stored: true},
		{name: "MlaPrologV3WeightNz", low: true, mode: "BSND"}, {name: "MlaPrologV3WeightNz", up: true, smooth: true, low: true, flat: true, mode: "TND"},
		{name: "MlaPrologV3WeightNz", x: true, up: true, low: true, mode: "PA_BLK_BSND"}, {name: "MlaPrologV3WeightNz", flat: true, tiled: true, mode: "PA_BLK_NZ"},
		{name: "MlaPrologV3WeightNz", up: true, cache: true, tile: true}, {name: "MlaPrologV3WeightNz", x: true, up: true, smooth: true, cache: true, tile: true, low: true, flat: true, mode: "TND"},
		{name: "MlaPrologV4WeightNz", mode: "PA_BSND"}, {name: "MlaPrologV4WeightNz", plain: true, low: true}, {name: "MlaPrologV4WeightNz", plain: true, up: true, cache: true, rope: true, tiled: true},
		{name: "MlaPrologV4WeightNz", plain: true, x: true, up: true, cache: true, tile: true, mode: "BSND"},
		{name: "MlaPrologV4WeightNz", plain: true, x: true, up: true, cache: true, query: true}, {name: "MlaPrologV4WeightNz", plain: true, x: true, up: true, low: true, mode: "TND", flat: true},
	} {
		const T, D, R, N, K = latentTokens, latentDim, latentRope, latentHeads, latentKey
		bf, f := dtype.BFloat16, dtype.Float32
		leading := []int64{2, 2}
		if l.flat {
			leading = []int64{T}
		}
		with := func(tail ...int64) []int64 { return append(append([]int64{}, leading...), tail...) }
		positive := func(seed uint64, n int64) *op.Tensor {
			v := optest.Normal(seed, f, n)
			for i := range v {
				v[i] = (math.Abs(v[i]) + .5) / 100
			}
			return optest.Tensor(t, f, []int64{1, n}, v...)
		}
		kind := func(integers bool) dtype.Type {
			if integers {
				return dtype.Int8
			}
			return bf
		}
		x := optest.Tensor(t, kind(l.x), with(latentHidden), optest.Normal(1, bf, T*latentHidden)...)
		if l.x {
			x = optest.Tensor(t, dtype.Int8, with(latentHidden), optest.Int8s(1, T*latentHidden)...)
		}
		down, downTensor := l.weight(t, 2, latentHidden, latentRank, l.x)
		up, upTensor := l.weight(t, 3, latentRank, N*(D+R), l.up)
		keys, keysTensor := l.weight(t, 4, latentHidden, K+R, l.x)
		absorb, gammaQ, gammaKey := optest.Filled(t, 5, bf, kerneltest.Contiguous, []int64{N, D, K}), optest.Filled(t, 6, bf, kerneltest.Contiguous, []int64{latentRank}), optest.Filled(t, 7, bf, kerneltest.Contiguous, []int64{K})
		sin, cos := optest.Filled(t, 8, bf, kerneltest.Contiguous, with(R)), optest.Filled(t, 9, bf, kerneltest.Contiguous, with(R))
		places, third, groups := []int64{5, 0, -1, 3}, strings.Contains(l.name, "V3") || strings.Contains(l.name, "V4"), int64(4)
		pages, width, ropeShape := []int64{latentPages, latentPage, 1}, int64(K), []int64{latentPages, latentPage, 1, R}
		index := optest.Tensor(t, dtype.Int64, leading, 5, 0, -1, 3)
		switch l.mode {
		case "BSND", "TND":
			pages, places, index = with(1), []int64{0, 1, 2, 3}, nil
			ropeShape = with(1, R)
		case "PA_BLK_BSND": // two sequences of 2 tokens, in pages of 2
			places, index = []int64{4, 5, -1, -1}, optest.Tensor(t, dtype.Int64, []int64{2, 1}, 2, -1)
		case "PA_BLK_NZ": // sequences of 3, 0 and 1 tokens
			places, index = []int64{2, 3, 4, 0}, optest.Tensor(t, dtype.Int64, []int64{3}, 1, 2, 0)
		}
		if l.tile {
			width, ropeShape = K+2*R+4*groups, []int64{0}
		}
		cache, ropeCache := optest.Tensor(t, kind(l.cache), append(append([]int64{}, pages...), width), 1), optest.Tensor(t, kind(l.rope), ropeShape, 1)
		query, queryRope, queryScale := optest.Tensor(t, kind(l.query), with(N, K)), optest.Tensor(t, bf, with(N, R)), optest.Tensor(t, f, []int64{T, N, 1})
		a := optest.Args{
			"tokenX": x, "weightDq": downTensor, "weightUqQr": upTensor, "weightUk": absorb, "weightDkvKr": keysTensor, "rmsnormGammaCq": gammaQ, "rmsnormGammaCkv": gammaKey, "ropeSin": sin, "ropeCos": cos,
			"kvCacheRef": cache, "krCacheRef": ropeCache, "rmsnormEpsilonCq": 1e-5, "rmsnormEpsilonCkv": 1e-5, "queryOut": query, "queryRopeOut": queryRope,
		}
		factorQ, factorKey, weights, clip := 1.0, 1.0, 0, .8
		low, lowScale := optest.Tensor(t, kind(l.up), with(latentRank)), optest.Tensor(t, f, []int64{T, 1})
		if l.tiled {
			a["cacheModeOptional"] = "PA_NZ"
		}
		if l.mode != "" {
			a["cacheModeOptional"] = l.mode
		}
		if third {
			factorQ, factorKey = 2, .5
			a["qcQrScale"], a["kcScale"] = factorQ, factorKey
			if index != nil {
				a["cacheIndexOptional"] = index
			}
			switch {
			case l.x:
				weights = 2
			case l.up:
				weights = 1
			}
			a["weightQuantMode"] = weights
			switch {
			case l.tile:
				a["kvCacheQuantMode"], a["ckvkrRepoMode"], a["quantScaleRepoMode"], a["tileSize"] = 3, 1, 1, K/groups
				a["kNopeClipAlphaOptional"] = optest.Tensor(t, f, []int64{1}, clip)
			case l.query:
				a["kvCacheQuantMode"], a["queryQuantMode"] = 1, 1
			case l.cache:
				a["kvCacheQuantMode"] = 2
			}
			if l.mode == "PA_BLK_NZ" {
				a["actualSeqLenOptional"] = optest.Tensor(t, dtype.Int32, []int64{3}, 3, 3, 4)
			}
			if l.low {
				a["queryNormOutOptional"] = low
				if l.up {
					a["dequantScaleQNormOutOptional"] = lowScale
				}
			}
			if strings.Contains(l.name, "V4") {
				a["doRope"] = !l.plain
				if l.plain {
					delete(a, "ropeSin")
					delete(a, "ropeCos")
				}
			}
		} else {
			a["cacheIndex"] = index
		}
		rotated := func(x, cos, sin []float64) []float64 {
			if l.plain {
				return x
			}
			return rotatedPairs(x, cos, sin)
		}
		var rowScale, downScale, keyScale, upScale, smooth []float64
		give := func(name string, x *op.Tensor) []float64 { a[name] = x; return optest.Values(x) }
		if l.x {
			v := positive(11, T)
			v.Shape, v.Strides = []int64{T, 1}, []int64{1, 1}
			rowScale, downScale, keyScale = give("dequantScaleXOptional", v), give("dequantScaleWDqOptional", positive(12, latentRank)), give("dequantScaleWDkvKrOptional", positive(13, K+R))
		}
		if l.up {
			upScale = give("dequantScaleWUqQrOptional", positive(14, N*(D+R)))
		}
		if l.smooth {
			smooth = give("smoothScalesCqOptional", optest.Tensor(t, f, []int64{1, latentRank}, 1, 2, .5))
		}
		var cacheFactor, ropeFactor []float64
		switch {
		case l.tile:
		case l.cache && l.query && third:
			cacheFactor = give("quantScaleCkvOptional", optest.Tensor(t, f, []int64{1}, 20))
			for len(cacheFactor) < K {
				cacheFactor = append(cacheFactor, 20)
			}
		case l.cache:
			cacheFactor = give("quantScaleCkvOptional", optest.Tensor(t, f, []int64{1, K}, 20, 30, 10))
		}
		if l.rope {
			ropeFactor = give("quantScaleCkrOptional", optest.Tensor(t, f, []int64{1, R}, 5, 3))
		}
		if l.query {
			name := "dequantScaleQNopeOutOptional"
			if l.name == "MlaPrologV3" {
				name = "dequantScaleQNopeOut"
			}
			a[name] = queryScale
		}
		optest.Run(t, l.name, a)

		wantLow := rms(times(optest.Times(optest.Values(x), down, latentHidden), rowScale, downScale, latentRank), optest.Values(gammaQ), 1e-5)
		for i := range wantLow {
			wantLow[i] *= factorQ
		}
		var scales []float64
		if l.up {
			scales = make([]float64, T)
			for i := range wantLow {
				if smooth != nil {
					wantLow[i] *= smooth[i%latentRank]
				}
				scales[i/latentRank] = max(scales[i/latentRank], math.Abs(wantLow[i])/127)
			}
			for i := range wantLow {
				wantLow[i] = math.RoundToEven(wantLow[i] / scales[i/latentRank])
			}
		}
		all := times(optest.Times(wantLow, up, latentRank), scales, upScale, N*(D+R))
		vs, vc := optest.Values(sin), optest.Values(cos)
		var wantQuery, wantRope []float64
		for i := range T {
			for h := range N {
				row := all[(i*N+h)*(D+R):][:D+R]
				wantQuery = append(wantQuery, optest.Times(row[:D], optest.Values(absorb)[h*D*K:(h+1)*D*K], D)...)
				wantRope = append(wantRope, rotated(row[D:], vc[i*R:(i+1)*R], vs[i*R:(i+1)*R])...)
			}
		}
		limit, what := 4*optest.ResultLimit(bf), fmt.Sprintf("%+v", l)
		if l.up {
			limit = .03 // a number that is rounded the other way is off by a step of 1/127
		}
		got := optest.Values(query)
		if l.query {
			for i := range got {
				got[i] *= optest.Values(queryScale)[i/K]
			}
		}
		optest.CloseTo(t, "query "+what, wantQuery, got, limit)
		if l.query { // attention multiplies the rotated features by the scales of the query and of the cache too
			for i := range wantRope {
				wantRope[i] *= cacheFactor[0] / optest.Values(queryScale)[i/R]
			}
		}
		optest.CloseTo(t, "rope "+what, wantRope, optest.Values(queryRope), limit)
		if l.low {
			gotLow := optest.Values(low)
			for i := range gotLow {
				if l.up { // an integer may be rounded the other way
					gotLow[i] *= optest.Values(lowScale)[i/latentRank]
					wantLow[i] *= scales[i/latentRank]
				}
				require.InDelta(t, wantLow[i], gotLow[i], limit*(1+math.Abs(wantLow[i])), "normed %s %d", what, i)
			}
		}

		both := times(optest.Times(optest.Values(x), keys, latentHidden), rowScale, keyScale, K+R)
		gotCache, gotRope := optest.Values(cache), optest.Values(ropeCache)
		seen := make(map[int64]bool)
		for i, at := range places {
			if at < 0 {
				continue
			}
			seen[at] = true
			row := both[i*(K+R):][:K+R]
			if l.tile {
				key, turned := rms(row[:K], optest.Values(gammaKey), 1e-5), rotated(row[K:], vc[i*R:(i+1)*R], vs[i*R:(i+1)*R])
				stored := make([]byte, width)
				for j := range stored {
					stored[j] = byte(int8(gotCache[at*width+int64(j)]))
				}
				for g := range int(groups) {
					most := 0.0
					tile := key[g*K/int(groups):][:K/int(groups)]
					for _, v := range tile {
						most = max(most, math.Abs(v*factorKey)*clip)
					}
					scale := float64(math.Float32frombits(binary.LittleEndian.Uint32(stored[K+2*R+4*g:])))
					require.InDelta(t, most/127, scale, 1e-5*most, "%s place %d scale %d", what, at, g)
					for j, v := range tile {
						want := min(max(v*factorKey, -most), most) / scale
						require.InDelta(t, want, float64(int8(stored[g*K/int(groups)+j])), .51, "%s place %d column %d", what, at, j)
					}
				}
				for j, want := range turned {
					got := float64(half.BFloat16(binary.LittleEndian.Uint16(stored[K+2*j:])).Float32())
					require.InDelta(t, want, got, 2*limit*(1+math.Abs(want)), "%s place %d rotated %d", what, at, j)
				}
				continue
			}
			for _, part := range []struct {
				want, got, factor []float64
				integers          bool
			}{
				{rms(row[:K], optest.Values(gammaKey), 1e-5), gotCache, cacheFactor, l.cache}, {rotated(row[K:], vc[i*R:(i+1)*R], vs[i*R:(i+1)*R]), gotRope, ropeFactor, l.rope},
			} {
				n := int64(len(part.want))
				for j, want := range part.want {
					if n == K {
						want *= factorKey
					}
					c0, place := int64(16), at*n+int64(j)
					if part.integers {
						c0 = 32
					}
					if l.tiled {
						place = at/latentPage*latentPage*n + int64(j)/c0*latentPage*c0 + at%latentPage*c0 + int64(j)%c0
					}
					if part.integers {
						require.InDelta(t, optest.ToInt8(want*part.factor[j]), part.got[place], 1, "%s place %d column %d", what, at, j)
					} else {
						require.InDelta(t, want, part.got[place], 2*limit*(1+math.Abs(want)), "%s place %d column %d", what, at, j)
					}
				}
			}
		}
		for at := range int64(latentPages * latentPage) {
			if !l.tiled && index != nil && !seen[at] {
				require.Equal(t, 1.0, gotCache[at*width], "%s place %d", what, at)
			}
		}
		for text, set := range map[string]optest.Args{
			"cacheModeOptional": {"cacheModeOptional": "BNSD"},
			"dtype":             {"weightUk": optest.Tensor(t, dtype.Float16, []int64{N, D, K})}, "heads and the angles": {"queryRopeOut": optest.Tensor(t, bf, with(N, R+2))},
		} {
			optest.Refused(t, op.InvalidParam, l.name, a.With(set), text)
		}
		if ones := make([]int64, len(leading)); !l.plain {
			for i := range ones {
				ones[i] = 1
			}
			optest.Refused(t, op.InvalidParam, l.name, a.With(optest.Args{"ropeCos": optest.Tensor(t, bf, append(ones, R))}), "angle for each token")
		} else {
			optest.Refused(t, op.InvalidParam, l.name, a.With(optest.Args{"ropeCos": cos}), "doRope is false")
		}
		switch other := optest.Tensor(t, kind(l.rope), []int64{1, 1, 1, R}); {
		case l.tile:
			optest.Refused(t, op.InvalidParam, l.name, a.With(optest.Args{"krCacheRef": other}), "must be empty")
		default:
			optest.Refused(t, op.InvalidParam, l.name, a.With(optest.Args{"krCacheRef": other}), "as many pages")
		}
		optest.Refused(t, op.NullPointer, l.name, a.With(optest.Args{"weightDkvKr": nil}), "weightDkvKr is null")
		if l.up {
			optest.Refused(t, op.NullPointer, l.name, a.With(optest.Args{"dequantScaleWUqQrOptional": nil}), "dequantScaleWUqQrOptional is null")
		}
		if !third {
			continue
		}
		for text, set := range map[string]optest.Args{
			"weightQuantMode is 3":                                {"weightQuantMode": 3},
			"weightQuantMode is -1":                               {"weightQuantMode": -1},
			"kvCacheQuantMode is 4":                               {"kvCacheQuantMode": 4},
			"queryQuantMode is 2":                                 {"queryQuantMode": 2},
			"ckvkrRepoMode is 2":                                  {"ckvkrRepoMode": 2},
			"quantScaleRepoMode is 2":                             {"quantScaleRepoMode": 2},
			fmt.Sprintf("with weightQuantMode %d", (weights+1)%3): {"weightQuantMode": (weights + 1) % 3},
		} {
			optest.Refused(t, op.InvalidParam, l.name, a.With(set), text)
		}
		if index != nil && l.mode == "" {
			index = optest.Tensor(t, dtype.Int64, leading, 6)
			require.ErrorContains(t, optest.Execute(t, l.name, a.With(optest.Args{"cacheIndexOptional": index})), "the pages have 6 places")
		}
	}
}
