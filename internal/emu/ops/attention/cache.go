package attention

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// cacheWrites are the operators that write new tokens into caches of blocks.
var cacheWrites = op.Table{"ScatterPaKvCache": scatterPages}.Selects()

// scatterPages writes token i of key and value to the slot in slotMapping: place slot % blockSize of
// block slot / blockSize, in caches [blocks, blockSize, heads, dim].
func scatterPages(c *op.Call) (op.Run, error) {
	key, value, slots := c.Tensor("key"), c.Tensor("value"), c.Tensor("slotMapping")
	keys, values := c.Tensor("keyCacheRef"), c.Tensor("valueCacheRef")
	for _, name := range []string{"compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional"} {
		if t := c.Optional(name); t != nil {
			c.Invalid("%v is given; the emulator writes whole tokens only, without compression: pass null", t)
		}
	}
	if mode := c.Text("cacheModeOptional"); mode != "" && mode != "Norm" {
		c.Invalid("cacheModeOptional is %q; the emulator has Norm only", mode)
	}
	if mode := c.Text("scatterModeOptional"); mode != "" && mode != "None" {
		c.Invalid("scatterModeOptional is %q; the emulator has None only", mode)
	}
	c.DType(key, dtype.Float16, dtype.BFloat16, dtype.Int8)
	c.DType(slots, op.IndexTypes...)
	for _, t := range []*op.Tensor{value, keys, values} {
		c.SameDType(key, t)
	}
	c.Plain(key, value, slots, keys, values)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if slots.Rank() != 1 {
		c.Unfit("%v must have one dimension", slots)
	}
	pairs := [][2]*op.Tensor{{key, keys}}
	if value.Len() > 0 || value.Rank() == 3 {
		pairs = append(pairs, [2]*op.Tensor{value, values})
	}
	for _, p := range pairs {
		fresh, cache := p[0], p[1]
		switch {
		case fresh.Rank() != 3 || cache.Rank() != 4:
			c.Unfit("%v must be [tokens, heads, dim] and %v [blocks, blockSize, heads, dim]", fresh, cache)
		case fresh.Shape[0] != slots.Len() || fresh.Shape[1] != cache.Shape[2] || fresh.Shape[2] != cache.Shape[3]:
			c.Unfit("%v must have a token for each of %v, with the heads of %v", fresh, slots, cache)
		case cache.Dim(0) != keys.Dim(0) || cache.Dim(1) != keys.Dim(1):
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
		size := keys.Shape[1]
		for i, slot := range at {
			if slot < 0 || slot >= keys.Shape[0]*size {
				return fmt.Errorf("slot %d of token %d is not within %d blocks of %d", slot, i, keys.Shape[0], size)
			}
			for _, p := range pairs {
				if err := elementwise.Copy(p[1].View().Select(0, slot/size).Select(0, slot%size), p[0].View().Select(0, int64(i))); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}
