package convolution

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// tile is the number of channels, and of filters, in a tile of FRACTAL_Z storage of 16-bit elements.
const tile = 16

// fractalZ describes a weight [filters, channels, height, width] of a convolution in groups, in
// FRACTAL_Z storage [sets * C1 * height * width, N1, 16, 16]. A set holds as many groups as fill whole
// tiles, each in channels and filters of its own; the rest of the set is zero.
type fractalZ struct {
	groups, filters, channels, area int64 // filters and channels are those of one group
	members                         int64 // groups of a set
	c1, n1                          int64 // tiles of channels and filters of a set
}

func fractalZOf(shape []int64, groups int64) fractalZ {
	z := fractalZ{groups: groups, filters: shape[0] / groups, channels: shape[1], area: shape[2] * shape[3]}
	z.members = min(multiple(multiple(z.channels, tile)/z.channels, multiple(z.filters, tile)/z.filters), groups)
	z.c1, z.n1 = (z.members*z.channels+tile-1)/tile, (z.members*z.filters+tile-1)/tile
	return z
}

// multiple returns the least common multiple of a and b.
func multiple(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// shape returns the storage shape.
func (z fractalZ) shape() []int64 {
	return []int64{(z.groups + z.members - 1) / z.members * z.c1 * z.area, z.n1, tile, tile}
}

// each calls f with the places of every element in the storage and in the dense weight.
func (z fractalZ) each(f func(stored, dense int64)) {
	dense := int64(0)
	for filter := range z.groups * z.filters {
		group := filter / z.filters
		set, member := group/z.members, group%z.members
		column := member*z.filters + filter%z.filters
		for channel := range z.channels {
			row := member*z.channels + channel
			for at := range z.area {
				f((((set*z.c1+row/tile)*z.area+at)*z.n1*tile+column)*tile+row%tile, dense)
				dense++
			}
		}
	}
}

// halves views memory as n elements of 16 bits.
func halves(p unsafe.Pointer, n int64) []uint16 { return unsafe.Slice((*uint16)(p), n) }

// pack writes a dense weight to dst.
func (z fractalZ) pack(dst, weight unsafe.Pointer) {
	n := op.Count(z.shape())
	to, from := halves(dst, n), halves(weight, z.groups*z.filters*z.channels*z.area)
	clear(to)
	z.each(func(stored, dense int64) { to[stored] = from[dense] })
}

// unpack is the inverse of pack.
func (z fractalZ) unpack(dst, weight unsafe.Pointer) {
	to, from := halves(dst, z.groups*z.filters*z.channels*z.area), halves(weight, op.Count(z.shape()))
	z.each(func(stored, dense int64) { to[dense] = from[stored] })
}

// dense returns a dense view of a weight in FRACTAL_Z storage, which it writes to p.
func (z fractalZ) dense(weight *op.Tensor, p unsafe.Pointer) kernel.View {
	z.unpack(p, weight.Data)
	return kernel.View{Data: p, DType: weight.DType, Shape: weight.Shape, Strides: op.ContiguousStrides(weight.Shape)}
}
