package attention

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// ropeCaches rotate new keys and store them in caches.
var ropeCaches = op.Table{"DequantRopeQuantKvcache": dequantRopeCache}.Selects()

// ropeCache is one call. Its input has rows of queries, keys and values side by side.
type ropeCache struct {
	*op.Call
	x, cos, sin, indices, keys, values     *op.Tensor // the last two are caches
	scales, offsets                        [2]*op.Tensor
	columns, rowScale, bias                *op.Tensor // dequantization of int32 sums
	outputs                                [3]*op.Tensor
	batch, length, heads, keyHeads, dim, n int64 // n rows of x
	paged                                  bool
}

// dequantRopeCache dequantizes x if it holds integers, splits it into queries, keys and values,
// rotates the first two in half mode, and writes keys and values as int8 into the caches.
func dequantRopeCache(c *op.Call) (op.Run, error) {
	r := &ropeCache{
		Call: c, x: c.Tensor("x"), cos: c.Tensor("cos"), sin: c.Tensor("sin"), indices: c.Tensor("indices"), keys: c.Tensor("kCacheRef"), values: c.Tensor("vCacheRef"),
		scales: [2]*op.Tensor{c.Tensor("scaleK"), c.Tensor("scaleV")}, offsets: [2]*op.Tensor{c.Optional("offsetKOptional"), c.Optional("offsetVOptional")},
		outputs: [3]*op.Tensor{c.Tensor("qOut"), c.Optional("kOut"), c.Optional("vOut")},
	}
	if mode := c.Text("quantModeOptional"); mode != "" && mode != "static" {
		c.Invalid("quantModeOptional is %q; only static is supported", mode)
	}
	if layout := c.Text("layoutOptional"); layout != "" && layout != "BSND" {
		c.Invalid("layoutOptional is %q; only BSND is supported", layout)
	}
	switch mode := c.Text("cacheModeOptional"); mode {
	case "page":
		r.paged = true
	case "", "contiguous":
	default:
		c.Invalid("cacheModeOptional is %q; use contiguous or page", mode)
	}
	if c.Bool("kvOutput") {
		r.outputs[1], r.outputs[2] = c.Tensor("kOut"), c.Tensor("vOut")
	} else {
		r.outputs[1], r.outputs[2] = nil, nil
	}
	c.Plain(r.x, r.cos, r.sin, r.indices, r.keys, r.values)
	c.DType(r.x, dtype.Float16, dtype.BFloat16, dtype.Int32)
	c.DType(r.cos, op.HalfTypes...)
	c.SameDType(r.cos, r.sin)
	c.DType(r.indices, dtype.Int32, dtype.Int64)
	c.Rank(r.x, 2, 3)
	c.Rank(r.keys, 4, 4)
	c.Same(r.keys, r.values)
	c.DType(r.keys, dtype.Int8)
	if c.Err() != nil {
		return nil, c.Err()
	}
	r.sizes()
	r.dequantised()
	for i, heads := range []int64{r.heads, r.keyHeads, r.keyHeads} {
		if t := r.outputs[i]; t != nil {
			c.Plain(t)
			c.SameDType(r.cos, t)
			want := append(append([]int64{}, r.x.Shape[:r.x.Rank()-1]...), heads, r.dim)
			c.Shape(t, want, "the heads of x")
		}
	}
	for _, list := range []*[2]*op.Tensor{&r.scales, &r.offsets} {
		for i, t := range list {
			if t == nil {
				continue
			}
			c.DType(t, dtype.Float32)
			c.Plain(t)
			if t.Len() != r.keyHeads*r.dim {
				c.Invalid("%v must be [%d,%d], one for each element of a key", t, r.keyHeads, r.dim)
				continue
			}
			list[i] = c.Reshaped(c.Contiguous(t), r.keyHeads, r.dim)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	width := (r.heads + 2*r.keyHeads) * r.dim
	r.x, r.cos, r.sin = c.Reshaped(c.Contiguous(r.x), r.n, width), c.Reshaped(c.Contiguous(r.cos), r.n, 1, r.dim), c.Reshaped(c.Contiguous(r.sin), r.n, 1, r.dim)
	return r.run, nil
}

// sizes reads the sizes from x, the caches and sizeSplits, and checks that they fit.
func (r *ropeCache) sizes() {
	r.batch, r.length, r.keyHeads, r.dim = r.x.Dim(0), 1, r.keys.Dim(2), r.keys.Dim(3)
	if r.x.Rank() == 3 {
		r.length = r.x.Dim(1)
	}
	r.n = r.batch * r.length
	width, parts := r.x.Dim(-1), r.Ints("sizeSplits")
	if parts == nil {
		r.Fail(op.NullPointer, "sizeSplits is null")
		return
	}
	key := r.keyHeads * r.dim
	if len(parts) != 3 || r.dim == 0 || r.dim%2 != 0 || parts[0] < 0 || parts[0]%r.dim != 0 || parts[1] != key || parts[2] != key || parts[0]+2*key != width {
		r.Invalid("sizeSplits %s must divide the %d columns of %v into queries, keys and values, with %d heads of %d for the last two", op.Dims(parts), width, r.x, r.keyHeads, r.dim)
		return
	}
	if width > 4096 || width%64 != 0 {
		r.Invalid("%v: the last dimension must be a multiple of 64 up to 4096", r.x)
	}
	r.heads = parts[0] / r.dim
	for _, t := range []*op.Tensor{r.cos, r.sin} {
		want := []int64{r.batch, r.dim}
		if r.x.Rank() == 3 {
			want = []int64{r.batch, r.length, 1, r.dim}
		}
		r.Shape(t, want, "an angle for each row of x and element of a head")
	}
	if r.paged {
		r.Shape(r.indices, []int64{r.n}, "a place for each row of x")
		return
	}
	r.Shape(r.indices, []int64{r.batch}, "a place for each sequence of x")
	if r.keys.Dim(0) < r.batch {
		r.Invalid("%v has no room for %d sequences", r.keys, r.batch)
	}
}

// dequantised reads the scales and the bias that dequantize integers.
func (r *ropeCache) dequantised() {
	if r.x.DType != dtype.Int32 {
		r.SameDType(r.x, r.cos)
		return
	}
	width := r.x.Dim(-1)
	r.columns, r.rowScale, r.bias = r.Tensor("weightScaleOptional"), r.Optional("activationScaleOptional"), r.Optional("biasOptional")
	r.DType(r.columns, dtype.Float32)
	r.Shape(r.columns, []int64{width}, "one for each column of x")
	if t := r.rowScale; t != nil {
		r.Plain(t)
		r.DType(t, dtype.Float32)
		if r.Err() == nil && t.Len() != r.n {
			r.Invalid("%v must have one for each of %d rows of x", t, r.n)
		}
		if r.Err() == nil {
			r.rowScale = r.Reshaped(r.Contiguous(t), r.n)
		}
	}
	if t := r.bias; t != nil {
		r.Plain(t)
		r.DType(t, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32)
		r.Shape(t, []int64{width}, "one for each column of x")
	}
}

func (r *ropeCache) run(*op.Exec) error {
	if r.n == 0 {
		return nil
	}
	x := r.x.View()
	if r.columns != nil {
		wide, release := kernel.Temporary(r.x.Shape...)
		defer release()
		if err := op.ScaledBack(wide, x, r.columns, r.rowScale, r.bias); err != nil {
			return err
		}
		x = wide
	}
	places, err := r.places()
	if err != nil {
		return err
	}
	first := int64(0)
	for i, heads := range []int64{r.heads, r.keyHeads, r.keyHeads} {
		part := op.Divided(x.Narrow(1, first*r.dim, heads*r.dim), 1, heads)
		first += heads
		if i < 2 {
			rotated, release := kernel.Temporary(r.n, heads, r.dim)
			defer release()
			if err := rowwise.Rotary(rotated, part, r.cos.View(), r.sin.View(), rowwise.RotaryHalf); err != nil {
				return err
			}
			part = rotated
		}
		if t := r.outputs[i]; t != nil {
			rows := part
			if t.Rank() == 4 {
				rows = op.Divided(part, 0, r.batch)
			}
			if err := elementwise.Copy(t.View(), rows); err != nil {
				return err
			}
		}
		if i > 0 {
			if err := r.store([]*op.Tensor{r.keys, r.values}[i-1], part, places, i-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// places returns the rows of a cache to which the rows of x go. Rows with a negative place are not
// stored.
func (r *ropeCache) places() ([]int64, error) {
	given, err := elementwise.Indices(r.indices.View())
	if err != nil {
		return nil, err
	}
	room := r.keys.Dim(1)
	if r.paged {
		for i, at := range given {
			if at >= room*r.keys.Dim(0) {
				return nil, fmt.Errorf("%v holds %d for row %d; the pages have %d places", r.indices, at, i, room*r.keys.Dim(0))
			}
		}
		return given, nil
	}
	var rows []int64
	for i, at := range given {
		if at < 0 || at > room-r.length {
			return nil, fmt.Errorf("%v holds %d for sequence %d; its cache has %d places for %d tokens from there", r.indices, at, i, room, r.length)
		}
		for k := range r.length {
			rows = append(rows, int64(i)*room+at+k)
		}
	}
	return rows, nil
}

// store quantises rows [n, heads, dim] into a cache.
func (r *ropeCache) store(cache *op.Tensor, rows kernel.View, places []int64, which int) error {
	q := gemm.Quantizer{Factor: r.scales[which].View(), Offset: op.OptionalView(r.offsets[which]), Divide: true, Round: elementwise.Round}
	for i, at := range places {
		if at < 0 {
			continue
		}
		if err := q.Quantize(cache.View().Select(0, at/cache.Dim(1)).Select(0, at%cache.Dim(1)), rows.Select(0, int64(i))); err != nil {
			return err
		}
	}
	return nil
}
