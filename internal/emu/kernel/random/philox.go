package random

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Philox is the counter-based random generator Philox4x32-10 of Salmon, Moraes, Dror and Shaw
// (SC 2011). A number depends only on its index, so results are the same for every number of
// threads. The key is the seed; the counter holds the block index in its low half and the offset
// in its high half. Element i uses half i%2 of block i/2, low word first.
type Philox struct{ Seed, Offset uint64 }

// Constants of the generator: multipliers of the rounds and increments of the key.
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	philoxRounds       = 10
)

// grain is the number of draws for which starting a thread pays off.
const grain = 1 << 12

// Block returns the i-th block of four words.
func (p Philox) Block(i uint64) [4]uint32 {
	a, b, c, d := uint32(i), uint32(i>>32), uint32(p.Offset), uint32(p.Offset>>32)
	k0, k1 := uint32(p.Seed), uint32(p.Seed>>32)
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxM0, a)
		hi1, lo1 := bits.Mul32(philoxM1, c)
		a, b, c, d = hi1^b^k0, lo1, hi0^d^k1, lo0
		k0, k1 = k0+philoxW0, k1+philoxW1
	}
	return [4]uint32{a, b, c, d}
}

// Bits returns the 64 random bits of element i.
func (p Philox) Bits(i int64) uint64 {
	x := p.Block(uint64(i) / 2)
	at := i % 2 * 2
	return uint64(x[at]) | uint64(x[at+1])<<32
}

// each calls f with the random bits of the elements from lo to hi.
func (p Philox) each(lo, hi int64, f func(i int64, x uint64)) {
	for i := lo; i < hi; i++ {
		x := p.Block(uint64(i) / 2)
		if i%2 == 0 {
			f(i, uint64(x[0])|uint64(x[1])<<32)
			i++
		}
		if i < hi {
			f(i, uint64(x[2])|uint64(x[3])<<32)
		}
	}
}

// unit converts the highest bits of x to a number in [0, 1) with the given precision in bits.
func unit(x uint64, precision int) float64 {
	return float64(x>>(64-precision)) / float64(uint64(1)<<precision)
}

// mantissa returns the number of bits with which an element type holds numbers in [0, 1).
func mantissa(d dtype.Type) int {
	switch d {
	case dtype.BFloat16:
		return 8
	case dtype.Float16:
		return 11
	case dtype.Float32:
		return 24
	}
	return 53
}

// reals sets every element of out to f of its random bits.
func (p Philox) reals(out kernel.View, f func(i int64, x uint64) float64) error {
	if out.Len() == 0 {
		return nil
	}
	v, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	to := unsafe.Slice((*float64)(v.Data), v.Len())
	thread.Parallel(v.Len(), grain, func(lo, hi int64) {
		p.each(lo, hi, func(i int64, x uint64) { to[i] = f(i, x) })
	})
	return elementwise.Copy(out, v)
}

// Uniform sets the elements of out to uniformly distributed numbers in [lo, hi).
func (p Philox) Uniform(out kernel.View, lo, hi float64) error {
	n := mantissa(out.DType)
	return p.reals(out, func(_ int64, x uint64) float64 { return lo + (hi-lo)*unit(x, n) })
}

// gauss sets z to numbers of the standard normal distribution, by the Box-Muller transform. angle has as many elements.
// Cosines are as exact as numbers of type d.
func (p Philox) gauss(z, angle kernel.View, first int64, d dtype.Type) error {
	radii, angles := unsafe.Slice((*float64)(z.Data), z.Len()), unsafe.Slice((*float64)(angle.Data), z.Len())
	p.each(first, first+z.Len(), func(i int64, x uint64) {
		radii[i-first], angles[i-first] = (float64(uint32(x))+1)*0x1p-32, 2*math.Pi*(float64(x>>32)*0x1p-32)
	})
	set := func(out kernel.View, d dtype.Type, op elementwise.Op, in ...elementwise.Input) error {
		return elementwise.Map(op, d, out, append(in, elementwise.Of(out)))
	}
	f64 := dtype.Float64
	return cmp.Or(set(z, f64, elementwise.Log), set(z, f64, elementwise.Mul, elementwise.Const(elementwise.Real(-2))), set(z, f64, elementwise.Sqrt),
		set(angle, d, elementwise.Cos), set(z, f64, elementwise.Mul, elementwise.Of(angle)))
}

// Normal sets the elements of out to normally distributed numbers. mean and deviation are
// constants, or views that broadcast to out.
func (p Philox) Normal(out kernel.View, mean, deviation elementwise.Input) error {
	n := out.Len()
	z, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	flat, d := z, dtype.Float32
	if out.DType == dtype.Float64 {
		d = out.DType
	}
	flat.Shape, flat.Strides = []int64{n}, []int64{1}
	errs := make([]error, (n+grain-1)/grain)
	thread.Parallel(int64(len(errs)), 1, func(lo, hi int64) {
		angle, release := kernel.TemporaryOf(dtype.Float64, grain)
		defer release()
		for i := lo; i < hi; i++ {
			part := flat.Narrow(0, i*grain, min(grain, n-i*grain))
			errs[i] = p.gauss(part, angle.Narrow(0, 0, part.Len()), i*grain, d)
		}
	})
	if err := cmp.Or(errs...); err != nil || n == 0 {
		return err
	}
	if err := elementwise.Map(elementwise.Mul, dtype.Float64, z, []elementwise.Input{elementwise.Of(z), deviation}); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Add, dtype.Float64, out, []elementwise.Input{elementwise.Of(z), mean}, elementwise.Real(1))
}

// Integers sets the elements of out to integers from lo to lo+n-1. n = 0 means 2^64.
func (p Philox) Integers(out kernel.View, lo int64, n uint64) error {
	if out.Len() == 0 {
		return nil
	}
	v, release := kernel.TemporaryOf(dtype.Int64, out.Shape...)
	defer release()
	to := unsafe.Slice((*int64)(v.Data), v.Len())
	thread.Parallel(v.Len(), grain, func(first, end int64) {
		p.each(first, end, func(i int64, x uint64) {
			if n != 0 {
				x, _ = bits.Mul64(x, n)
			}
			to[i] = lo + int64(x)
		})
	})
	return elementwise.Copy(out, v)
}

// Bernoulli sets each element of out to 1 with the given probability and else to 0. The
// probability is a constant or a view that broadcasts to out.
func (p Philox) Bernoulli(out kernel.View, probability elementwise.Input) error {
	if out.Len() == 0 {
		return nil
	}
	v, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.Identity, dtype.Float64, v, []elementwise.Input{probability}); err != nil {
		return err
	}
	values := unsafe.Slice((*float64)(v.Data), v.Len())
	for i, c := range values {
		if !(c >= 0 && c <= 1) {
			return fmt.Errorf("probability %v of element %d is not in [0, 1]", c, i)
		}
	}
	return p.reals(out, func(i int64, x uint64) float64 {
		if unit(x, 53) < values[i] {
			return 1
		}
		return 0
	})
}

// Permutation sets the vector out to a random permutation of 0 to len-1.
func (p Philox) Permutation(out kernel.View) error {
	order := make([]int64, out.Len())
	p.each(0, out.Len(), func(i int64, x uint64) {
		at, _ := bits.Mul64(x, uint64(i)+1)
		order[i] = order[at]
		order[at] = i
	})
	return indexing.SetInts(out, order)
}

// Multinomial draws indices from each row of weights with probabilities proportional to the
// weights, with or without replacement. Weights must be finite and not negative. A row needs a
// positive weight, and without replacement as many positive weights as there are draws.
func (p Philox) Multinomial(out, weights kernel.View, replace bool) error {
	values, release := kernel.TemporaryOf(dtype.Float64, weights.Shape...)
	defer release()
	if err := elementwise.Copy(values, weights); err != nil {
		return err
	}
	n, k := weights.Shape[len(weights.Shape)-1], out.Shape[len(out.Shape)-1]
	drawn, errs := make([]int64, out.Len()), make([]error, weights.Len()/n)
	all := unsafe.Slice((*float64)(values.Data), values.Len())
	thread.Parallel(int64(len(errs)), 1+grain/(4*n), func(lo, hi int64) {
		for row := lo; row < hi; row++ {
			errs[row] = p.draw(drawn[row*k:][:k], all[row*n:][:n], row, replace)
		}
	})
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	return indexing.SetInts(out, drawn)
}

// draw is Multinomial for one row.
func (p Philox) draw(drawn []int64, w []float64, row int64, replace bool) error {
	n, k := int64(len(w)), int64(len(drawn))
	total, positive := 0.0, int64(0)
	for i, x := range w {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("weight %v at place %d of row %d is not a finite number of at least 0", x, i, row)
		}
		total += x
		if x > 0 {
			positive++
		}
	}
	if positive == 0 || !replace && positive < k {
		return fmt.Errorf("row %d has %d positive weights for %d draws", row, positive, k)
	}
	if !replace {
		p.race(drawn, w, row*n)
		return nil
	}
	for j := range drawn {
		drawn[j] = pick(w, total*unit(p.Bits(row*k+int64(j)), 53))
	}
	return nil
}

// pick returns the index at which the running sum of weights first exceeds at.
func pick(weights []float64, at float64) int64 {
	last, sum := 0, 0.0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		last = i
		if sum += w; at < sum {
			break
		}
	}
	return int64(last)
}

// race sets first to the indices with the shortest of random exponential waiting times whose rates are
// the weights: a sample without replacement. from is the index of the first weight's random number.
func (p Philox) race(first []int64, weights []float64, from int64) {
	times := make([]uint64, len(weights))
	p.each(from, from+int64(len(weights)), func(i int64, x uint64) {
		time := math.Inf(1)
		if w := weights[i-from]; w > 0 {
			time = -math.Log(1-unit(x, 53)) / w
		}
		times[i-from] = math.Float64bits(time)
	})
	order.KeysOfFloats(times, false)
	new(order.Sorter).Sort(first, times)
}
