package chance

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/order"
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
	x := [4]uint32{uint32(i), uint32(i >> 32), uint32(p.Offset), uint32(p.Offset >> 32)}
	k0, k1 := uint32(p.Seed), uint32(p.Seed>>32)
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxM0, x[0])
		hi1, lo1 := bits.Mul32(philoxM1, x[2])
		x = [4]uint32{hi1 ^ x[1] ^ k0, lo1, hi0 ^ x[3] ^ k1, lo0}
		k0, k1 = k0+philoxW0, k1+philoxW1
	}
	return x
}

// Bits returns the 64 random bits of element i.
func (p Philox) Bits(i int64) uint64 {
	x := p.Block(uint64(i) / 2)
	at := i % 2 * 2
	return uint64(x[at]) | uint64(x[at+1])<<32
}

// unit converts the highest bits of x to a number in [0, 1) with the given precision in bits.
func unit(x uint64, precision int) float64 { return math.Ldexp(float64(x>>(64-precision)), -precision) }

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
	kernel.Parallel(v.Len(), grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			to[i] = f(i, p.Bits(i))
		}
	})
	return kernel.Copy(out, v)
}

// Uniform sets the elements of out to uniformly distributed numbers in [lo, hi).
func (p Philox) Uniform(out kernel.View, lo, hi float64) error {
	n := mantissa(out.DType)
	return p.reals(out, func(_ int64, x uint64) float64 { return lo + (hi-lo)*unit(x, n) })
}

// gauss returns a number of the standard normal distribution, by the Box-Muller transform.
func gauss(x uint64) float64 {
	radius := math.Sqrt(-2 * math.Log(math.Ldexp(float64(uint32(x))+1, -32)))
	return radius * math.Cos(2*math.Pi*math.Ldexp(float64(x>>32), -32))
}

// Normal sets the elements of out to normally distributed numbers. mean and deviation are
// constants, or views that broadcast to out.
func (p Philox) Normal(out kernel.View, mean, deviation kernel.Input) error {
	z, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	if err := p.reals(z, func(_ int64, x uint64) float64 { return gauss(x) }); err != nil || out.Len() == 0 {
		return err
	}
	if err := kernel.Map(kernel.Mul, dtype.Float64, z, []kernel.Input{kernel.Of(z), deviation}); err != nil {
		return err
	}
	return kernel.Map(kernel.Add, dtype.Float64, out, []kernel.Input{kernel.Of(z), mean}, kernel.Real(1))
}

// Integers sets the elements of out to integers from lo to lo+n-1. n = 0 means 2^64.
func (p Philox) Integers(out kernel.View, lo int64, n uint64) error {
	if out.Len() == 0 {
		return nil
	}
	v, release := kernel.TemporaryOf(dtype.Int64, out.Shape...)
	defer release()
	to := unsafe.Slice((*int64)(v.Data), v.Len())
	kernel.Parallel(v.Len(), grain, func(first, end int64) {
		for i := first; i < end; i++ {
			x := p.Bits(i)
			if n != 0 {
				x, _ = bits.Mul64(x, n)
			}
			to[i] = lo + int64(x)
		}
	})
	return kernel.Copy(out, v)
}

// Bernoulli sets each element of out to 1 with the given probability and else to 0. The
// probability is a constant or a view that broadcasts to out.
func (p Philox) Bernoulli(out kernel.View, probability kernel.Input) error {
	if out.Len() == 0 {
		return nil
	}
	v, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	if err := kernel.Map(kernel.Identity, dtype.Float64, v, []kernel.Input{probability}); err != nil {
		return err
	}
	chance := unsafe.Slice((*float64)(v.Data), v.Len())
	for i, c := range chance {
		if !(c >= 0 && c <= 1) {
			return fmt.Errorf("probability %v of element %d is not in [0, 1]", c, i)
		}
	}
	return p.reals(out, func(i int64, x uint64) float64 {
		if unit(x, 53) < chance[i] {
			return 1
		}
		return 0
	})
}

// Permutation sets the vector out to a random permutation of 0 to len-1.
func (p Philox) Permutation(out kernel.View) error {
	order := make([]int64, out.Len())
	for i := range order {
		at, _ := bits.Mul64(p.Bits(int64(i)), uint64(i)+1)
		order[i] = order[at]
		order[at] = int64(i)
	}
	return kernel.SetInts(out, order)
}

// Multinomial draws indices from each row of weights with probabilities proportional to the
// weights, with or without replacement. Weights must be finite and not negative. A row needs a
// positive weight, and without replacement as many positive weights as there are draws.
func (p Philox) Multinomial(out, weights kernel.View, replace bool) error {
	values, release := kernel.TemporaryOf(dtype.Float64, weights.Shape...)
	defer release()
	if err := kernel.Copy(values, weights); err != nil {
		return err
	}
	n, k := weights.Shape[len(weights.Shape)-1], out.Shape[len(out.Shape)-1]
	drawn := make([]int64, 0, out.Len())
	all := unsafe.Slice((*float64)(values.Data), values.Len())
	for row := range weights.Len() / n {
		w := all[row*n : (row+1)*n]
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
		if replace {
			for j := range k {
				drawn = append(drawn, pick(w, total*unit(p.Bits(row*k+j), 53)))
			}
			continue
		}
		drawn = append(drawn, p.race(w, row*n)[:k]...)
	}
	return kernel.SetInts(out, drawn)
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

// race orders the indices by random exponential waiting times whose rates are the weights. The
// first k are a sample without replacement.
func (p Philox) race(weights []float64, first int64) []int64 {
	times := make([]float64, len(weights))
	places := make([]int64, len(weights))
	for i, w := range weights {
		places[i] = int64(i)
		times[i] = math.Inf(1)
		if w > 0 {
			times[i] = -math.Log(1-unit(p.Bits(first+int64(i)), 53)) / w
		}
	}
	slices.SortStableFunc(places, func(i, j int64) int { return order.Compare(times[i], times[j]) })
	return places
}
