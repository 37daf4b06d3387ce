package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// latentCase is a call of KvRmsNormRopeCache: a cache of 3 pages of 32 rows, or of sequences of 32.
type latentCase struct {
	dt            dtype.Type
	layout        kerneltest.Layout
	mode          string
	batch, tokens int64
	latent, rope  int64
	int8s         bool
}

const cachePages, cachePage = 3, 32

// slots returns index, and the row of the cache, counted over all pages, of each token; −1 leaves it out.
func (c latentCase) slots() (index []float64, shape []int64, rows []int64) {
	total := c.batch * c.tokens
	switch c.mode {
	case "Norm":
		for r := range total {
			slot := (7*(r%c.tokens) + 3) % cachePage
			if r%5 == 4 {
				slot = -1
			}
			index = append(index, float64(slot))
			if slot >= 0 {
				slot += r / c.tokens * cachePage
			}
			rows = append(rows, slot)
		}
		return index, []int64{c.batch, c.tokens}, rows
	case "PA_BLK_BNSD", "PA_BLK_NZ":
		each := (c.tokens + cachePage - 1) / cachePage
		for r := range total {
			page := (r/c.tokens*each + r%c.tokens/cachePage + 1) % cachePages
			rows = append(rows, page*cachePage+r%c.tokens%cachePage)
		}
		for b := range c.batch {
			for p := range each {
				index = append(index, float64((b*each+p+1)%cachePages*cachePage))
			}
		}
		return index, []int64{c.batch * each}, rows
	}
	for r := range total {
		slot := (11*r + 5) % (cachePages * cachePage)
		if r%5 == 4 {
			slot = -1
		}
		index, rows = append(index, float64(slot)), append(rows, slot)
	}
	return index, []int64{total}, rows
}

func (c latentCase) args(t *testing.T) optest.Args {
	cache := func(width int64) *op.Tensor {
		d, l := c.dt, c.layout
		if c.int8s {
			d = dtype.Int8
		}
		if c.mode == "PA_NZ" || c.mode == "PA_BLK_NZ" {
			l = kerneltest.Contiguous
		}
		shape := []int64{cachePages, cachePage, 1, width}
		if c.mode == "Norm" {
			shape = []int64{cachePages, 1, cachePage, width}
		}
		v := make([]float64, optest.Elements(shape))
		for i := range v {
			v[i] = 99 // what is not written stays
		}
		return optest.TensorIn(t, d, l, shape, v...)
	}
	index, shape, _ := c.slots()
	angles := c.tokens
	if c.batch%2 == 0 {
		angles = 1
	}
	a := optest.Args{
		"kv": optest.Filled(t, 1, c.dt, c.layout, []int64{c.batch, 1, c.tokens, c.latent + c.rope}), "gamma": optest.Filled(t, 2, c.dt, kerneltest.Contiguous, []int64{c.latent}),
		"cos": optest.Filled(t, 3, c.dt, c.layout, []int64{c.batch, 1, angles, c.rope}), "sin": optest.Filled(t, 4, c.dt, c.layout, []int64{c.batch, 1, angles, c.rope}),
		"index": optest.Tensor(t, dtype.Int64, shape, index...), "kCacheRef": cache(c.rope), "ckvCacheRef": cache(c.latent), "epsilon": 1e-5, "cacheModeOptional": c.mode,
		"isOutputKv": true, "kRopeOut": optest.TensorIn(t, c.dt, c.layout, []int64{c.batch, 1, c.tokens, c.rope}), "cKvOut": optest.TensorIn(t, c.dt, c.layout, []int64{c.batch, 1, c.tokens, c.latent}),
	}
	if c.int8s {
		f := dtype.Float32
		a["kRopeScaleOptional"], a["cKvScaleOptional"] = optest.Tensor(t, f, []int64{1}, 20), optest.Filled(t, 5, f, kerneltest.Contiguous, []int64{1, c.latent})
		a["kRopeOffsetOptional"] = optest.Tensor(t, f, []int64{1}, 3)
	}
	return a
}

// TestLatentCache compares results and caches with the definition in float64: each form of the cache, type and layout, rows
// that are left out, angles for each token and for all, and int8 with scales and offsets.
func TestLatentCache(t *testing.T) {
	for _, mode := range []string{"Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"} {
		for _, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, layout := range kerneltest.Layouts {
				for _, c := range []latentCase{{batch: 1, tokens: 7, latent: 32, rope: 32}, {batch: 2, tokens: 5, latent: 64, rope: 32}, {batch: 1, tokens: 45, latent: 32, rope: 64}, {batch: 3, tokens: 1, latent: 96, rope: 32, int8s: true}} {
					c.mode, c.dt, c.layout = mode, dt, layout
					if mode == "Norm" && c.tokens > cachePage {
						c.tokens = 31
					}
					a := c.args(t)
					optest.Run(t, "KvRmsNormRopeCache", a)
					get := func(name string) []float64 { return optest.Values(a[name].(*op.Tensor)) }
					kv, gamma, cos, sin := get("kv"), get("gamma"), get("cos"), get("sin")
					rope, latent := make([]float64, c.batch*c.tokens*c.rope), make([]float64, c.batch*c.tokens*c.latent)
					angles := int64(len(cos)) / c.rope / c.batch
					for r := range c.batch * c.tokens {
						row := kv[r*(c.latent+c.rope):][:c.latent+c.rope]
						mean := 0.0
						for _, x := range row[:c.latent] {
							mean += x * x / float64(c.latent)
						}
						for i := range c.latent {
							latent[r*c.latent+i] = row[i] / math.Sqrt(mean+1e-5) * gamma[i]
						}
						at := (r/c.tokens*angles + r%c.tokens%angles) * c.rope
						for i := range c.rope {
							half := c.rope / 2
							x, turned := row[c.latent+2*(i%half)], -row[c.latent+2*(i%half)+1]
							if i >= half {
								x, turned = row[c.latent+2*(i%half)+1], row[c.latent+2*(i%half)]
							}
							rope[r*c.rope+i] = x*cos[at+i] + turned*sin[at+i]
						}
					}
					what := fmt.Sprint(c)
					optest.CloseTo(t, "kRopeOut "+what, rope, get("kRopeOut"), optest.ResultLimit(dt))
					optest.CloseTo(t, "cKvOut "+what, latent, get("cKvOut"), optest.ResultLimit(dt))
					_, _, rows := c.slots()
					for name, v := range map[string][]float64{"kCacheRef": rope, "ckvCacheRef": latent} {
						width := int64(len(v)) / (c.batch * c.tokens)
						want := make([]float64, cachePages*cachePage*width)
						for i := range want {
							want[i] = 99
						}
						limit := optest.ResultLimit(dt)
						for r, slot := range rows {
							for i := range width {
								if slot < 0 {
									continue
								}
								x := v[int64(r)*width+i]
								if c.int8s && name == "kCacheRef" {
									x = optest.ToInt8(x*20 + 3)
								} else if c.int8s {
									x = optest.ToInt8(x * get("cKvScaleOptional")[i])
								}
								to := slot*width + i
								if c.mode == "PA_NZ" || c.mode == "PA_BLK_NZ" {
									line := int64(32 / a[name].(*op.Tensor).DType.Size())
									to = slot/cachePage*cachePage*width + i/line*cachePage*line + slot%cachePage*line + i%line
								}
								want[to] = x
							}
						}
						if c.int8s {
							limit = 0.02 // a number half way between two may become either
						}
						optest.CloseTo(t, name+" "+what, want, get(name), limit)
					}
				}
			}
		}
	}
}

func TestLatentCacheRefuses(t *testing.T) {
	a := latentCase{dt: dtype.BFloat16, mode: "PA_BNSD", batch: 1, tokens: 3, latent: 32, rope: 32}.args(t)
	bf := dtype.BFloat16
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	for text, set := range map[string]optest.Args{
		"cacheMode is":           {"cacheModeOptional": "PA_ND"},
		"one head":               {"kv": x(bf, 1, 2, 3, 64)},
		"angles for each token":  {"cos": x(bf, 1, 1, 2, 32), "sin": x(bf, 1, 1, 2, 32)},
		"a place for each token": {"index": x(dtype.Int64, 4)},
		"multiple of 16 rows":    {"kCacheRef": x(bf, 3, 8, 1, 32), "ckvCacheRef": x(bf, 3, 8, 1, 32)},
		"the rotated rows":       {"kRopeOut": x(bf, 1, 1, 3, 16)},
	} {
		optest.Refused(t, op.TilingRefused, "KvRmsNormRopeCache", a.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "KvRmsNormRopeCache", a.With(optest.Args{"index": x(dtype.Int32, 3)}), "dtype")
	optest.Refused(t, op.NullPointer, "KvRmsNormRopeCache", a.With(optest.Args{"kCacheRef": x(dtype.Int8, 3, 32, 1, 32)}), "kRopeScaleOptional is null")
	optest.Refused(t, op.NullPointer, "KvRmsNormRopeCache", a.With(optest.Args{"kRopeOut": nil}), "kRopeOut is null")
	require.ErrorContains(t, optest.Execute(t, "KvRmsNormRopeCache", a.With(optest.Args{"index": optest.Tensor(t, dtype.Int64, []int64{3}, 0, 96, 1)})), "index has 96")
}

// TestGatherPages: pages in any order, lengths that no page divides, offsets, sums of lengths, both forms of the cache.
func TestGatherPages(t *testing.T) {
	for _, mode := range []string{"Norm", "PA_NZ"} {
		for _, dt := range []dtype.Type{dtype.Int8, dtype.Float16, dtype.BFloat16} {
			for _, layout := range kerneltest.Layouts {
				for _, sums := range []bool{false, true} {
					for _, offset := range []bool{false, true} {
						const pages, size = 7, 4
						lengths, first := []int64{5, 0, 7}, []int64{0, 0, 0}
						a := optest.Args{"cacheMode": mode, "isSeqLensCumsum": sums, "blockTables": optest.Tensor(t, dtype.Int32, []int64{3, 4}, 6, 2, 0, 1, 0, 0, 0, 0, 3, 5, 4, 6)}
						counts := lengths
						if sums {
							counts = append([]int64{0}, ends(lengths)...)
						}
						a["seqLens"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(counts))}, optest.Floats(counts)...)
						if offset {
							first = []int64{4, 0, 5}
							a["seqOffsetOptional"] = optest.Tensor(t, dtype.Int32, []int64{3}, optest.Floats(first)...)
						}
						table := [][]int64{{6, 2, 0, 1}, {0, 0, 0, 0}, {3, 5, 4, 6}}
						line := int64(32 / dt.Size())
						for i, name := range []string{"key", "value"} {
							heads, dim := int64(2), line*int64(i+1)
							cache, shape, out := []int64{pages, size, heads, dim}, []int64{12, heads, dim}, layout
							in := layout
							if mode == "PA_NZ" {
								cache, shape, in = []int64{pages, heads * dim / line, size, line}, []int64{12, heads * dim}, kerneltest.Contiguous
							}
							v := make([]float64, optest.Elements(cache))
							for j := range v {
								v[j] = float64((j*37+11*i)%127 - 60)
							}
							a[name+"Cache"], a[name+"Ref"] = optest.TensorIn(t, dt, in, cache, v...), optest.TensorIn(t, dt, out, shape)
						}
						optest.Run(t, "GatherPaKvCache", a)
						for _, name := range []string{"key", "value"} {
							cache, got := a[name+"Cache"].(*op.Tensor), optest.Values(a[name+"Ref"].(*op.Tensor))
							v, width := optest.Values(cache), int64(len(got))/12
							var want []float64
							for b, n := range lengths {
								for j := range n {
									page := table[b][first[b]/size+j/size]
									for k := range width {
										at := (page*size+j%size)*width + k
										if mode == "PA_NZ" {
											at = page*size*width + k/line*size*line + j%size*line + k%line
										}
										want = append(want, v[at])
									}
								}
							}
							optest.CloseTo(t, fmt.Sprint(name, mode, dt, layout, sums, offset), want, got, 0)
						}
					}
				}
			}
		}
	}
	f := dtype.Float16
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{"keyCache": x(f, 3, 4, 2, 8), "valueCache": x(f, 3, 4, 2, 8), "blockTables": optest.Tensor(t, dtype.Int32, []int64{1, 2}, 0, 3), "seqLens": optest.Tensor(t, dtype.Int32, []int64{1}, 5), "keyRef": x(f, 5, 2, 8), "valueRef": x(f, 5, 2, 8), "cacheMode": "Norm"}
	for text, set := range map[string]optest.Args{
		"cacheMode is":            {"cacheMode": "NZ"},
		"dtype":                   {"seqLens": x(dtype.Int64, 1)},
		"tokens of the heads":     {"keyRef": x(f, 5, 2, 7)},
		"length of each sequence": {"isSeqLensCumsum": true},
		"as many pages":           {"valueCache": x(f, 3, 5, 2, 8)},
	} {
		optest.Refused(t, op.InvalidParam, "GatherPaKvCache", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "GatherPaKvCache", a.With(optest.Args{"valueRef": nil}), "valueRef is null")
	require.ErrorContains(t, optest.Execute(t, "GatherPaKvCache", a), "blockTables has 3")
}
