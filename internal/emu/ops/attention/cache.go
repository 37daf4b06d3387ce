package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// cacheWrites are the operators that write new tokens into caches of blocks.
var cacheWrites = op.Table{"ScatterPaKvCache": scatterPages}.Selects()

// pageForms lists the layouts of a cache by cacheMode and scatterMode. The dimension slots has the slots of a block.
var pageForms = map[[2]string]pageForm{
	{"Norm", "None"}: {slots: 1, text: "[blocks, blockSize, heads, dim]"},
	{"Norm", "NHSD"}: {slots: 2, text: "[blocks, heads, blockSize, dim]"},
	{"PA_NZ", ""}:    {slots: -2, columns: true, text: "[blocks, heads·dim/columns, blockSize, columns] or [blocks, heads, dim/columns, blockSize, columns], with 32 bytes of columns"},
}

// pageForm is a layout of a cache of blocks. With columns the numbers of a token are cut into pieces of 32 bytes, each of which has
// the slots of a block one after the other.
type pageForm struct {
	slots   int
	columns bool
	text    string
}

// shape returns the shape of a cache of the rank, with blocks of size slots, for tokens of heads and dim.
func (f pageForm) shape(rank int, blocks, size, heads, dim, columns int64) []int64 {
	switch {
	case f.columns && rank == 5:
		return []int64{blocks, heads, dim / columns, size, columns}
	case f.columns:
		return []int64{blocks, heads * dim / columns, size, columns}
	case f.slots == 2:
		return []int64{blocks, heads, size, dim}
	}
	return []int64{blocks, size, heads, dim}
}

// size returns the number of slots of a block.
func (f pageForm) size(cache *op.Tensor) int64 {
	if f.slots < 0 {
		return cache.Dim(f.slots)
	}
	return cache.Shape[f.slots]
}

// place returns the slot of a block in a cache, and the token that is written there, in one shape.
func (f pageForm) place(cache, token kernel.View, block, slot int64) (to, from kernel.View) {
	to = cache.Select(0, block)
	if !f.columns {
		return to.Select(f.slots-1, slot), token
	}
	to = to.Select(len(to.Shape)-2, slot)
	heads, dim, columns := token.Shape[0], token.Shape[1], to.Shape[len(to.Shape)-1]
	token.Shape, token.Strides = []int64{heads, dim / columns, columns}, []int64{token.Strides[0], token.Strides[1] * columns, token.Strides[1]}
	if len(to.Shape) == 2 {
		to.Shape, to.Strides = token.Shape, []int64{to.Strides[0] * (dim / columns), to.Strides[0], to.Strides[1]}
	}
	return to, token
}

// pageFormOf reads the modes of ScatterPaKvCache, of which PA_NZ ignores the second.
func pageFormOf(c *op.Call) pageForm {
	mode, scatter := c.Text("cacheModeOptional"), c.Text("scatterModeOptional")
	if mode == "" {
		mode = "Norm"
	}
	switch {
	case mode == "PA_NZ":
		scatter = ""
	case scatter == "":
		scatter = "None"
	}
	f, ok := pageForms[[2]string{mode, scatter}]
	switch {
	case mode != "Norm" && mode != "PA_NZ":
		c.Unfit("cacheModeOptional is %q; it must be Norm or PA_NZ", mode)
	case scatter == "NHSD" && c.Chip() == acceptance.Ascend950:
		c.Unfit("scatterModeOptional is NHSD, which this chip does not have; use None")
	case !ok:
		c.Invalid("scatterModeOptional is %q; the emulator has None and NHSD only", scatter)
	}
	return f
}

// scatterPages writes token i of key and value to the slot in slotMapping: place slot % blockSize of
// block slot / blockSize.
func scatterPages(c *op.Call) (op.Run, error) {
	key, value, slots := c.Tensor("key"), c.Tensor("value"), c.Tensor("slotMapping")
	keys, values := c.Tensor("keyCacheRef"), c.Tensor("valueCacheRef")
	for _, name := range []string{"compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional"} {
		if t := c.Optional(name); t != nil {
			c.Invalid("%v is given; the emulator writes whole tokens only, without compression: pass null", t)
		}
	}
	form := pageFormOf(c)
	c.DType(key, dtype.Float16, dtype.BFloat16, dtype.Int8)
	c.DType(slots, op.IndexTypes...)
	c.SameDType(key, keys)
	if form.columns {
		c.DType(value, dtype.Float16, dtype.BFloat16, dtype.Int8)
	} else {
		c.SameDType(key, value)
	}
	c.SameDType(value, values)
	c.Plain(key, value, slots, keys, values)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if slots.Rank() != 1 {
		c.Unfit("%v must have one dimension", slots)
	}
	pairs := [][2]*op.Tensor{{key, keys}}
	if value.Len() > 0 || value.Rank() == 3 || form != pageForms[[2]string{"Norm", "None"}] {
		pairs = append(pairs, [2]*op.Tensor{value, values})
	}
	for _, p := range pairs {
		fresh, cache := p[0], p[1]
		if fresh.Rank() != 3 || cache.Rank() != 4 && (cache.Rank() != 5 || !form.columns) {
			c.Unfit("%v must be [tokens, heads, dim] and %v %s", fresh, cache, form.text)
			return nil, c.Err()
		}
		blocks, size, heads, dim, columns := cache.Dim(0), form.size(cache), key.Shape[1], fresh.Shape[2], int64(32/fresh.DType.Size())
		switch {
		case fresh.Shape[0] != slots.Len() || fresh.Shape[1] != heads:
			c.Unfit("%v must have a token for each of %v, with the heads of %v", fresh, slots, key)
		case (form.columns || form.slots == 2) && dim%columns != 0:
			c.Unfit("%v has a dim of %d, which must be a multiple of 32 bytes", fresh, dim)
		case !slices.Equal(cache.Shape, form.shape(cache.Rank(), blocks, size, heads, dim, columns)):
			c.Unfit("%v must be %s, with the heads and the dim of %v", cache, form.text, fresh)
		case blocks != keys.Dim(0) || size != form.size(keys):
			c.Unfit("%v and %v must have the same blocks", keys, cache)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		at, err := elementwise.Indices(slots.View())
		if err != nil {
			return err
		}
		size := form.size(keys)
		for i, slot := range at {
			if slot < 0 || slot >= keys.Shape[0]*size {
				return fmt.Errorf("slot %d of token %d is not within %d blocks of %d", slot, i, keys.Shape[0], size)
			}
			for _, p := range pairs {
				to, from := form.place(p[1].View(), p[0].View().Select(0, int64(i)), slot/size, slot%size)
				if err := elementwise.Copy(to, from); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}
