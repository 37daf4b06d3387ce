package linalg

import (
	"math"
	"math/bits"
	"math/cmplx"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	fourierkernel "github.com/goascend/cann/internal/emu/kernel/fourier"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
)

// fourierTransforms lists the Fourier transforms. They compute in double precision.
var fourierTransforms = op.Table{"Rfft1D": realFourier, "Stft": windowedFourier}

// fourier is the transform of one length: X[w] = Σ x[k]·exp(-2πi·w·k/n).
type fourier struct {
	n     int
	roots []complex128 // exp(-2πi·k/n), k < n/2, when n is a power of two
	// Other lengths convolve with a chirp (Bluestein's algorithm), using transforms whose length
	// is a power of two.
	inner *fourier
	chirp []complex128 // exp(-πi·k²/n)
	other []complex128 // transform of the conjugated chirp
}

func newFourier(n int) *fourier {
	f := &fourier{n: n}
	if n&(n-1) == 0 {
		f.roots = make([]complex128, n/2)
		for k := range f.roots {
			f.roots[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))
		}
		return f
	}
	f.inner = newFourier(1 << bits.Len(uint(2*n-2)))
	f.chirp, f.other = make([]complex128, n), make([]complex128, f.inner.n)
	for k := range f.chirp {
		f.chirp[k] = cmplx.Rect(1, -math.Pi*float64(k*k%(2*n))/float64(n))
		f.other[k] = cmplx.Conj(f.chirp[k])
		if k > 0 {
			f.other[f.inner.n-k] = f.other[k]
		}
	}
	f.inner.transform(f.other)
	return f
}

// times returns x·y with the same bits on every CPU: on some of them Go fuses products with sums, which conversions prevent.
func times(x, y complex128) complex128 {
	return complex(float64(real(x)*real(y))-float64(imag(x)*imag(y)), float64(real(x)*imag(y))+float64(imag(x)*real(y)))
}

// transform replaces the n numbers of x by their transform.
func (f *fourier) transform(x []complex128) {
	if f.inner != nil {
		f.convolve(x)
		return
	}
	shift := bits.UintSize - bits.Len(uint(f.n-1))
	for i := range x {
		if j := int(bits.Reverse(uint(i)) >> shift); i < j && f.n > 1 {
			x[i], x[j] = x[j], x[i]
		}
	}
	for half := 1; half < f.n; half *= 2 {
		step := f.n / (2 * half)
		for first := 0; first < f.n; first += 2 * half {
			low, high, root := x[first:][:half], x[first+half:][:half], 0
			for k, a := range low {
				b := times(high[k], f.roots[root])
				low[k], high[k] = a+b, a-b
				root += step
			}
		}
	}
}

func (f *fourier) convolve(x []complex128) {
	t, n := make([]complex128, f.inner.n), float64(f.inner.n)
	for k, v := range x {
		t[k] = times(v, f.chirp[k])
	}
	f.inner.transform(t)
	for k := range t {
		t[k] = cmplx.Conj(times(t[k], f.other[k])) // the transform of a conjugate is the inverse one
	}
	f.inner.transform(t)
	for k := range x {
		x[k] = times(complex(real(t[k])/n, -imag(t[k])/n), f.chirp[k])
	}
}

// realFourier transforms a dimension of real numbers, truncated or zero-padded to length n. The
// result has the n/2+1 non-negative frequencies; its last dimension holds the real and imaginary
// parts.
func realFourier(c *op.Call) (op.Run, error) {
	self, out, n, mode := c.Tensor("self"), c.Tensor("out"), c.Int("n"), c.Int("norm")
	c.Plain(self, out)
	c.DType(self, dtype.Float32)
	c.SameDType(self, out)
	c.Rank(self, 1, 7)
	if n < 1 || n > 262144 || n > 4096 && n&(n-1) != 0 {
		c.Invalid("n is %d; use 1 to 4096, or a power of two up to 262144", n)
	}
	if mode < 1 || mode > 3 {
		c.Invalid("norm %d is unknown; 1 is none, 2 by n, 3 by its root", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	axis := c.Axis(self, c.Int("dim"))
	shape := slices.Clone(self.Shape)
	shape[axis] = n/2 + 1
	c.Shape(out, append(shape, 2), "the parts of n/2+1 frequencies")
	if c.Err() == nil && self.Len() == 0 {
		c.Vacuous("%v is empty", self)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	scale := []float64{1, 1 / float64(n), 1 / math.Sqrt(float64(n))}[mode-1]
	return func(*op.Exec) error {
		// Rows along the last dimension.
		order := append(slices.Delete(op.InOrder(self.Rank()), axis, axis+1), int64(axis))
		in, to := op.Permuted(self.View(), order), op.Permuted(out.View(), append(order, int64(self.Rank())))
		if n > 1 && n&(n-1) == 0 {
			return fourierkernel.RealFourier(to, in, n, scale)
		}
		rows, release, err := elementwise.Borrow[float64](in)
		defer release()
		if err != nil {
			return err
		}
		f, length, kept := newFourier(int(n)), int(self.Shape[axis]), int(n/2+1)
		return elementwise.SetBy(to, func(result []float64) {
			thread.Parallel(int64(len(rows)/length), 1+1<<10/n, func(first, end int64) {
				x := make([]complex128, n)
				for row := int(first); row < int(end); row++ {
					clear(x)
					for i, v := range rows[row*length:][:min(length, int(n))] {
						x[i] = complex(v*scale, 0)
					}
					f.transform(x)
					for i, v := range x[:kept] {
						result[(row*kept+i)*2], result[(row*kept+i)*2+1] = real(v), imag(v)
					}
				}
			})
		})
	}, nil
}

// windowedFourier transforms frames of nFft numbers, hopLength apart, of sequences [L]
// or [B, L]. A window shorter than nFft is centred in the frame.
func windowedFourier(c *op.Call) (op.Run, error) {
	self, window, out := c.Tensor("self"), c.Optional("windowOptional"), c.Tensor("out")
	n, hop, width := c.Int("nFft"), c.Int("hopLength"), c.Int("winLength")
	c.Plain(self, out)
	c.DType(self, dtype.Float32, dtype.Float64, dtype.Complex64, dtype.Complex128)
	if self.Format != dtype.ND {
		c.Invalid("%v must have the format ND", self)
	}
	c.Rank(self, 1, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	switch length := self.Dim(-1); {
	case self.Len() == 0:
		c.Vacuous("%v is empty", self)
	case n <= 0 || n > length || hop <= 0 || width <= 0 || width > n:
		c.Invalid("nFft is %d, hopLength %d and winLength %d; they must be positive, winLength at most nFft, and nFft at most the %d of %v", n, hop, width, length, self)
	}
	if window != nil {
		c.Plain(window)
		c.SameDType(self, window)
		c.Shape(window, []int64{width}, "winLength")
	}
	part, isComplex := op.PartTypes[self.DType]
	if !isComplex {
		part = self.DType
	}
	kept := n
	if c.Bool("onesided") {
		if kept = n/2 + 1; isComplex {
			c.Invalid("onesided is true, but %v is complex", self)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	frames := (self.Dim(-1)-n)/hop + 1
	shape := append(slices.Clone(self.Shape[:self.Rank()-1]), kept, frames)
	if c.Bool("returnComplex") {
		if whole, ok := op.PartTypes[out.DType]; !ok || whole != part {
			c.Invalid("%v must be the complex type with parts of %v", out, part)
		}
	} else {
		c.DType(out, part)
		shape = append(shape, 2)
	}
	c.Shape(out, shape, "frequencies and windows")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		x, err := self.Numbers(self.Shape)
		if err != nil {
			return err
		}
		factors, err := windowFactors(window, n, width, c.Bool("normalized"))
		if err != nil {
			return err
		}
		var result []complex128
		for row := range slices.Chunk(x, int(self.Dim(-1))) {
			result = append(result, windowed(row, factors, frames, hop, kept)...)
		}
		re, im := out.View(), kernel.View{}
		if c.Bool("returnComplex") {
			re, im = out.Parts()
		} else {
			last := out.Rank() - 1
			re, im = re.Select(last, 0), re.Select(last, 1)
		}
		// The frequencies were computed frame by frame.
		order := op.InOrder(self.Rank() + 1)
		slices.Reverse(order[len(order)-2:])
		return op.SetParts(op.Permuted(re, order), op.Permuted(im, order), result)
	}, nil
}

// windowFactors returns the factors of the n elements of a frame: the window, or ones without a
// window, centred and padded with zeros.
func windowFactors(window *op.Tensor, n, width int64, normalized bool) ([]complex128, error) {
	given := slices.Repeat([]complex128{1}, int(width))
	if window != nil {
		var err error
		if given, err = window.Numbers(window.Shape); err != nil {
			return nil, err
		}
	}
	factors := make([]complex128, n)
	copy(factors[(n-width)/2:], given)
	if normalized {
		root := math.Sqrt(float64(n))
		for i, factor := range factors {
			factors[i] = complex(real(factor)/root, imag(factor)/root)
		}
	}
	return factors, nil
}

// windowed multiplies the frames of a row by factors, transforms them, and keeps the first
// frequencies of each. Frames start hop elements apart.
func windowed(row, factors []complex128, frames, hop, kept int64) (result []complex128) {
	f := newFourier(len(factors))
	for m := range frames {
		t := slices.Clone(row[m*hop:][:len(factors)])
		for i := range t {
			t[i] = times(t[i], factors[i])
		}
		f.transform(t)
		result = append(result, t[:kept]...)
	}
	return result
}
