package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
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
	chip          acceptance.Chip // 0 is the 910B
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
		key, value := []int64{c.rope}, []int64{c.latent}
		switch {
		case c.chip == acceptance.Ascend950:
			key, value = []int64{1}, []int64{1, c.latent}
			a["kRopeOffsetOptional"] = optest.Tensor(t, f, []int64{1}, 3)
		case c.batch%2 == 0:
			key, value = []int64{1, c.rope}, []int64{1, c.latent}
		}
		a["kRopeScaleOptional"], a["cKvScaleOptional"] = optest.Filled(t, 6, f, kerneltest.Contiguous, key), optest.Filled(t, 5, f, kerneltest.Contiguous, value)
	}
	return a
}

// TestLatentCache compares results and caches with the definition in float64: each form of the cache, type and layout, rows
// that are left out, angles for each token and for all, and int8 with scales and offsets.
func TestLatentCache(t *testing.T) {
	for _, mode := range []string{"Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"} {
		for _, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, layout := range kerneltest.Layouts {
				for _, c := range []latentCase{{batch: 1, tokens: 7, latent: 32, rope: 32}, {batch: 2, tokens: 5, latent: 64, rope: 32}, {batch: 1, tokens: 45, latent: 32, rope: 64}, {batch: 3, tokens: 1, latent: 96, rope: 32, int8s: true}, {batch: 2, tokens: 7, latent: 512, rope: 64, int8s: true}, {batch: 3, tokens: 1, latent: 96, rope: 32, int8s: true, chip: acceptance.Ascend950}} {
					c.mode, c.dt, c.layout = mode, dt, layout
					if mode == "Norm" && c.tokens > cachePage {
						c.tokens = 31
					}
					if mode == "Norm" && c.int8s {
						c.chip = acceptance.Ascend950
					}
					a := c.args(t)
					untouched := optest.Values(a["kRopeOut"].(*op.Tensor))
					if c.chip == acceptance.Ascend950 {
						optest.RunOn(t, c.chip, "KvRmsNormRopeCache", a)
					} else {
						optest.Run(t, "KvRmsNormRopeCache", a)
					}
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
					if mode == "Norm" { // without pages the operator returns no rows
						require.Equal(t, untouched, get("kRopeOut"), what)
					} else {
						optest.CloseTo(t, "kRopeOut "+what, rope, get("kRopeOut"), optest.ResultLimit(dt))
						optest.CloseTo(t, "cKvOut "+what, latent, get("cKvOut"), optest.ResultLimit(dt))
					}
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
									scale, offset := get("kRopeScaleOptional"), 0.0
									if c.chip == acceptance.Ascend950 {
										offset = 3
									}
									x = optest.ToInt8(x*scale[i%int64(len(scale))] + offset)
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
	f := dtype.Float32
	for _, name := range []string{"KvRmsNormRopeCache", "KvRmsNormRopeCacheV2"} {
		c := latentCase{dt: bf, mode: "PA_BNSD", batch: 1, tokens: 3, latent: 32, rope: 32, int8s: true}
		a := c.args(t)
		for text, set := range map[string]optest.Args{
			"must have a shape of":                 {"kRopeScaleOptional": x(f, 1)},
			"the same number of dimensions":        {"kRopeScaleOptional": x(f, 1, 32)},
			"leave the offset of latent rows out":  {"cKvOffsetOptional": x(f, 32)},
			"leave the offset of latent rows out;": {"kRopeOffsetOptional": x(f, 32)},
		} {
			optest.Refused(t, op.TilingRefused, name, a.With(set), text)
		}
		c.mode = "Norm"
		optest.Refused(t, op.TilingRefused, name, c.args(t), "need pages")
		_, err := optest.PrepareIn(t, op.Env{Tiled: true}, name, a)
		require.ErrorContains(t, err, "they must have 512 and 64")
		c = latentCase{dt: bf, mode: "PA_NZ", batch: 1, tokens: 3, latent: 512, rope: 64, int8s: true}
		_, err = optest.PrepareIn(t, op.Env{Tiled: true}, name, c.args(t))
		require.NoError(t, err)
	}
}

// valuesOf returns a function that returns the values of a tensor, which it reads once.
func valuesOf(a optest.Args) func(name string) []float64 {
	known := map[string][]float64{}
	return func(name string) []float64 {
		if _, ok := known[name]; !ok {
			known[name] = optest.Values(a[name].(*op.Tensor))
		}
		return known[name]
	}
}

// slotOf returns the place in the memory of a cache of element i of a row of a head in a slot of 32-token pages.
func slotOf(mode string, slot, sequence, head, heads, i, width, size int64) int64 {
	line := 32 / size
	switch mode {
	case "Norm":
		return ((sequence*heads+head)*cachePage+slot)*width + i
	case "PA_NZ", "PA_BLK_NZ":
		return (slot/cachePage*heads+head)*cachePage*width + i/line*cachePage*line + slot%cachePage*line + i%line
	}
	return (slot*heads+head)*width + i
}

// TestSeparateCache: KvRmsNormRopeCacheV2 with values of their own normalises keys, rotates their first 64 columns, and writes
// both; without them it is the first version.
func TestSeparateCache(t *testing.T) {
	const wide, narrow, rope = 192, 128, 64
	for _, mode := range []string{"Norm", "PA", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"} {
		for n, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float16, dtype.BFloat16} {
			layout := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			c := latentCase{dt: dt, layout: layout, mode: mode, batch: int64(1 + n%2), tokens: int64(7 + 30*(n%2)), int8s: n > 1}
			if mode == "Norm" {
				c.tokens = 9
			}
			heads := int64(1) << n
			index, shape, rows := c.slots()
			cacheLayout, cacheType := layout, dt
			if mode == "PA_NZ" || mode == "PA_BLK_NZ" {
				cacheLayout = kerneltest.Contiguous
			}
			if c.int8s {
				cacheType = dtype.Int8
			}
			cache := func(width int64) *op.Tensor {
				shape := []int64{cachePages, cachePage, heads, width}
				if mode == "Norm" {
					shape = []int64{cachePages, heads, cachePage, width}
				}
				v := make([]float64, optest.Elements(shape))
				for i := range v {
					v[i] = 99
				}
				return optest.TensorIn(t, cacheType, cacheLayout, shape, v...)
			}
			row := func(width int64) []int64 { return []int64{c.batch, heads, c.tokens, width} }
			a := optest.Args{
				"kv": optest.Filled(t, 1, dt, layout, row(wide)), "gamma": optest.Filled(t, 2, dt, kerneltest.Contiguous, []int64{wide}),
				"cos": optest.Filled(t, 3, dt, layout, row(rope)), "sin": optest.Filled(t, 4, dt, layout, row(rope)), "vOptional": optest.Filled(t, 5, dt, layout, row(narrow)),
				"index": optest.Tensor(t, dtype.Int64, shape, index...), "kCacheRef": cache(wide), "ckvCacheRef": cache(narrow), "epsilon": 1e-3, "cacheModeOptional": mode,
				"isOutputKv": true, "kRopeOut": optest.TensorIn(t, dt, layout, row(wide)), "cKvOut": optest.TensorIn(t, dt, layout, row(narrow)),
			}
			if c.int8s {
				f := dtype.Float32
				a["kRopeScaleOptional"], a["cKvScaleOptional"] = optest.Filled(t, 6, f, kerneltest.Contiguous, []int64{heads, wide}), optest.Filled(t, 7, f, kerneltest.Contiguous, []int64{heads, narrow})
				a["kRopeOffsetOptional"], a["cKvOffsetOptional"] = optest.Filled(t, 8, f, kerneltest.Contiguous, []int64{heads, wide}), optest.Filled(t, 9, f, kerneltest.Contiguous, []int64{heads, narrow})
			}
			optest.Run(t, "KvRmsNormRopeCacheV2", a)
			get := valuesOf(a)
			kv, cos, sin, keys := get("kv"), get("cos"), get("sin"), []float64(nil)
			for r := range int(c.batch * heads * c.tokens) {
				x := kv[r*wide:][:wide]
				mean := 0.0
				for _, v := range x {
					mean += v * v / wide
				}
				y := make([]float64, wide)
				for i := range y {
					y[i] = x[i] / math.Sqrt(mean+1e-3) * get("gamma")[i]
				}
				keys = append(keys, rotaryDefinition(rowwise.RotaryInterleaveHalf, y[:rope], cos[r*rope:][:rope], sin[r*rope:][:rope])...)
				keys = append(keys, y[rope:]...)
			}
			what := fmt.Sprint(c, heads)
			limit := optest.ResultLimit(dt)
			if mode != "Norm" || c.int8s {
				optest.CloseTo(t, "kRopeOut "+what, keys, get("kRopeOut"), limit)
				optest.CloseTo(t, "cKvOut "+what, get("vOptional"), get("cKvOut"), limit)
			}
			for _, w := range []struct {
				cache, scale, offset string
				v                    []float64
				width                int64
			}{{"kCacheRef", "kRopeScaleOptional", "kRopeOffsetOptional", keys, wide}, {"ckvCacheRef", "cKvScaleOptional", "cKvOffsetOptional", get("vOptional"), narrow}} {
				want := make([]float64, cachePages*cachePage*heads*w.width)
				for i := range want {
					want[i] = 99
				}
				for b := range c.batch {
					for s := range c.tokens {
						slot := rows[b*c.tokens+s]
						for h := range heads {
							for i := range w.width {
								if slot < 0 {
									continue
								}
								x := w.v[((b*heads+h)*c.tokens+s)*w.width+i]
								if c.int8s {
									x = optest.ToInt8(x*get(w.scale)[h*w.width+i] + get(w.offset)[h*w.width+i])
								}
								at := slot
								if mode == "Norm" {
									at = slot % cachePage
								}
								want[slotOf(mode, at, b, h, heads, i, w.width, int64(cacheType.Size()))] = x
							}
						}
					}
				}
				if c.int8s {
					limit = 0.02
				}
				optest.CloseTo(t, w.cache+" "+what, want, get(w.cache), limit)
			}
		}
	}
	var second optest.Args
	for _, c := range []latentCase{{dt: dtype.Float16, mode: "PA_NZ", batch: 1, tokens: 3, latent: 32, rope: 32, int8s: true}, {dt: dtype.BFloat16, mode: "PA_BNSD", batch: 1, tokens: 7, latent: 32, rope: 32}} {
		first := c.args(t)
		second = c.args(t)
		optest.Run(t, "KvRmsNormRopeCache", first)
		optest.Run(t, "KvRmsNormRopeCacheV2", second)
		for _, cache := range []string{"kCacheRef", "ckvCacheRef"} {
			require.Equal(t, optest.Values(first[cache].(*op.Tensor)), optest.Values(second[cache].(*op.Tensor)))
		}
	}
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.BFloat16, shape) }
	optest.Refused(t, op.TilingRefused, "KvRmsNormRopeCacheV2", second.With(optest.Args{"vOptional": x(1, 1, 7, 64)}), "a value of 128")
	optest.Refused(t, op.TilingRefused, "KvRmsNormRopeCacheV2", second.With(optest.Args{"vOptional": x(1, 1, 7, 128)}), "192 elements of a key")
}

// TestPackedCache: QkvRmsNormRopeCache against the definition in float64.
func TestPackedCache(t *testing.T) {
	const width = 128
	for n, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float16, dtype.BFloat16} {
		for _, layout := range kerneltest.Layouts {
			for _, heads := range [][]int64{{1, 1, 1}, {6, 3, 3}, {4, 1, 1}} {
				c := latentCase{dt: dt, layout: layout, mode: "PA_NZ", batch: int64(1 + n%2), tokens: int64(5 + 18*(n%2)), int8s: n > 1}
				index, shape, rows := c.slots()
				all, total := op.Total(heads), c.batch*c.tokens
				cacheType := dt
				if c.int8s {
					cacheType = dtype.Int8
				}
				line := int64(32 / cacheType.Size())
				a := optest.Args{
					"qkv": optest.Filled(t, 1, dt, layout, []int64{total, all * width}), "index": optest.Tensor(t, dtype.Int64, shape, index...),
					"qGamma": optest.Filled(t, 2, dt, kerneltest.Contiguous, []int64{width}), "kGamma": optest.Filled(t, 3, dt, kerneltest.Contiguous, []int64{width}),
					"cos": optest.Filled(t, 4, dt, layout, []int64{total, width}), "sin": optest.Filled(t, 5, dt, layout, []int64{total, width}),
					"qOut": optest.TensorIn(t, dt, layout, []int64{total, heads[0] * width}), "qkvSize": []int64{c.batch, c.tokens, all, width}, "headNums": heads, "epsilon": 1e-6, "cacheModeOptional": "PA_NZ",
					"kCache": optest.Tensor(t, cacheType, []int64{cachePages, heads[1] * width / line, cachePage, line}, 99), "vCache": optest.Tensor(t, cacheType, []int64{cachePages, heads[1] * width / line, cachePage, line}, 99),
				}
				optest.Fill(a["kCache"].(*op.Tensor), 99)
				optest.Fill(a["vCache"].(*op.Tensor), 99)
				if c.int8s {
					for i, name := range []string{"k", "v"} {
						scale := optest.Filled(t, uint64(6+i), dtype.Float32, kerneltest.Contiguous, []int64{heads[1], width})
						v := optest.Values(scale)
						for i := range v {
							v[i] = 0.01 + math.Abs(v[i])/20
						}
						a[name+"ScaleOptional"] = optest.Tensor(t, dtype.Float32, scale.Shape, v...)
					}
					a["vOffsetOptional"] = optest.Filled(t, 9, dtype.Float32, kerneltest.Contiguous, []int64{heads[1], width})
				} else {
					for i, name := range []string{"q", "k", "v"} {
						a[name+"OutBeforeQuant"] = optest.TensorIn(t, dt, layout, []int64{total, heads[i] * width})
					}
				}
				optest.Run(t, "QkvRmsNormRopeCache", a)
				get := valuesOf(a)
				qkv, cos, sin := get("qkv"), get("cos"), get("sin")
				what, first := fmt.Sprint(c, heads), int64(0)
				for i, name := range []string{"q", "k", "v"} {
					var want []float64
					cache := make([]float64, cachePages*cachePage*heads[i]*width)
					for j := range cache {
						cache[j] = 99
					}
					for r := range total {
						for h := range heads[i] {
							x := qkv[(r*all+first+h)*width:][:width]
							y := append([]float64{}, x...)
							if i < 2 {
								mean := 0.0
								for _, v := range x {
									mean += v * v / width
								}
								for j := range y {
									y[j] = x[j] / math.Sqrt(mean+1e-6) * get(name + "Gamma")[j]
								}
								y = rotaryDefinition(rowwise.RotaryHalf, y, cos[r*width:][:width], sin[r*width:][:width])
							}
							want = append(want, y...)
							for j, v := range y {
								if c.int8s && i > 0 {
									at, offset := h*width+int64(j), 0.0
									if i == 2 {
										offset = get("vOffsetOptional")[at]
									}
									v = optest.ToInt8(v/get(name + "ScaleOptional")[at] + offset)
								}
								if rows[r] >= 0 {
									cache[slotOf("PA_NZ", rows[r], 0, h, heads[i], int64(j), width, int64(cacheType.Size()))] = v
								}
							}
						}
					}
					first += heads[i]
					limit := optest.ResultLimit(dt)
					if !c.int8s {
						optest.CloseTo(t, name+"OutBeforeQuant "+what, want, get(name+"OutBeforeQuant"), limit)
					}
					if i == 0 {
						optest.CloseTo(t, "qOut "+what, want, get("qOut"), limit)
						continue
					}
					if c.int8s {
						limit = 0.02
					}
					optest.CloseTo(t, name+"Cache "+what, cache, get(name+"Cache"), limit)
				}
			}
		}
	}
	bf := dtype.BFloat16
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{"qkv": x(bf, 2, 384), "qGamma": x(bf, 128), "kGamma": x(bf, 128), "cos": x(bf, 2, 128), "sin": x(bf, 2, 128), "index": x(dtype.Int64, 2), "qOut": x(bf, 2, 128), "kCache": x(bf, 2, 8, 32, 16), "vCache": x(bf, 2, 8, 32, 16), "qkvSize": []int64{1, 2, 3, 128}, "headNums": []int64{1, 1, 1}, "cacheModeOptional": "PA_NZ"}
	for text, set := range map[string]optest.Args{
		"only PA_NZ":              {"cacheModeOptional": "PA_BNSD"},
		"it must be [B,S,N,128]":  {"qkvSize": []int64{1, 2, 6, 64}},
		"a multiple of them":      {"headNums": []int64{1, 2, 2}, "qkvSize": []int64{1, 2, 5, 128}},
		"the sizes of qkvSize":    {"qkv": x(bf, 3, 384)},
		"a multiple of 32 tokens": {"kCache": x(bf, 2, 8, 16, 16), "vCache": x(bf, 2, 8, 16, 16)},
		"pages of FRACTAL_NZ":     {"vCache": x(bf, 2, 4, 32, 16)},
		"one for each element":    {"kGamma": x(bf, 64)},
		"row for each sequence":   {"cos": x(bf, 3, 128)},
	} {
		optest.Refused(t, op.TilingRefused, "QkvRmsNormRopeCache", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "QkvRmsNormRopeCache", a.With(optest.Args{"headNums": nil}), "headNums is null")
	optest.Refused(t, op.NullPointer, "QkvRmsNormRopeCache", a.With(optest.Args{"vCache": x(dtype.Int8, 2, 4, 32, 32)}), "vScaleOptional is null")
	require.ErrorContains(t, optest.Execute(t, "QkvRmsNormRopeCache", a.With(optest.Args{"index": optest.Tensor(t, dtype.Int64, []int64{2}, 0, 64)})), "index has 64")
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
