package fft

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/rt"
)

func (l *Library) aclfftExecC2C(t *rt.Thread, plan *plan, idata, odata uintptr, direction int32) error {
	sign := 1.0
	if direction == abi.ACLFFT_FORWARD {
		sign = -1
	}
	return l.execute(t, "aclfftExecC2C", plan, abi.ACLFFT_C2C, idata, odata, func(p *shape) {
		n := p.lengths[0] * p.batch * p.stride
		if len(p.lengths) == 2 {
			n *= p.lengths[1]
		}
		x := widened(values[complex64](idata, n))
		p.complex(x, sign)
		narrow(values[complex64](odata, n), x)
	})
}

func (l *Library) aclfftExecR2C(t *rt.Thread, plan *plan, idata, odata uintptr) error {
	return l.execute(t, "aclfftExecR2C", plan, abi.ACLFFT_R2C, idata, odata, func(p *shape) {
		n := p.lengths[0]
		from, to := values[float32](idata, n*p.batch), values[complex64](odata, (n/2+1)*p.batch)
		for b := range p.batch {
			x := make([]complex128, n)
			for i := range x {
				x[i] = complex(float64(from[b*n+i]), 0)
			}
			narrow(to[b*(n/2+1):][:n/2+1], transformed(x, -1))
		}
	})
}

// aclfftExecC2R takes the half of the spectrum that a real signal determines, and reads no imaginary part of
// the numbers that are real in such a spectrum.
func (l *Library) aclfftExecC2R(t *rt.Thread, plan *plan, idata, odata uintptr) error {
	return l.execute(t, "aclfftExecC2R", plan, abi.ACLFFT_C2R, idata, odata, func(p *shape) {
		n := p.lengths[0]
		from, to := values[complex64](idata, (n/2+1)*p.batch), values[float32](odata, n*p.batch)
		for b := range p.batch {
			half := widened(from[b*(n/2+1):][:n/2+1])
			x := make([]complex128, n)
			copy(x, half)
			for i := n/2 + 1; i < n; i++ {
				x[i] = complex(real(half[n-i]), -imag(half[n-i]))
			}
			x[0] = complex(real(x[0]), 0)
			if n%2 == 0 {
				x[n/2] = complex(real(x[n/2]), 0)
			}
			for i, v := range transformed(x, 1) {
				to[b*n+i] = float32(real(v))
			}
		}
	})
}

// Transforms of doubles are declared and have no kernels.

func (l *Library) aclfftExecZ2Z(rt.Handle, uintptr, uintptr, int32) error {
	return unimplemented("aclfftExecZ2Z")
}
func (l *Library) aclfftExecD2Z(rt.Handle, uintptr, uintptr) error {
	return unimplemented("aclfftExecD2Z")
}
func (l *Library) aclfftExecZ2D(rt.Handle, uintptr, uintptr) error {
	return unimplemented("aclfftExecZ2D")
}

// execute checks a call, and queues and awaits the transform.
func (l *Library) execute(t *rt.Thread, function string, p *plan, kind int32, idata, odata uintptr, run func(*shape)) error {
	switch {
	case len(p.lengths) == 0:
		return refuse(abi.ACLFFT_INVALID_PLAN, function+": the plan was not made")
	case idata == 0 || odata == 0:
		return null(function, "idata or odata")
	case p.kind != kind:
		return refuse(abi.ACLFFT_INVALID_TYPE, function+": the plan is of another type")
	}
	transform := shape{lengths: p.lengths, stride: p.stride, batch: p.batch}
	if err := transform.fits(function, kind, acceptance.ChipOf(l.rt.SoC())); err != nil {
		return err
	}
	for _, data := range []uintptr{idata, odata} {
		if l.rt.OnDevice(uint64(data)) {
			return refuse(abi.ACLFFT_EXEC_FAILED, fmt.Sprintf("%s: %#x is device memory; the library copies from and to host memory", function, data))
		}
	}
	s, code := l.rt.Stream(t, p.stream)
	if s == nil || s.Capturing() {
		return refuse(abi.ACLFFT_EXEC_FAILED, fmt.Sprintf("%s: the stream of the plan is not live in this context, or captures (%d)", function, int32(code)))
	}
	if code := l.rt.Submit(t, s, rt.Task{Name: function, Run: func() error { run(&transform); return nil }}); code != 0 {
		return refuse(abi.ACLFFT_EXEC_FAILED, fmt.Sprintf("%s: queueing returned %d", function, int32(code)))
	}
	if f := s.Synchronize(rt.Wait{}); f != nil {
		return refuse(abi.ACLFFT_EXEC_FAILED, fmt.Sprintf("%s: %v", function, f))
	}
	return nil
}

// shape holds the sizes of the transforms of one call.
type shape struct {
	lengths       []int
	stride, batch int
}

// fits refuses what the library has no kernel for on a chip. A 950 has none along columns and goes along the
// first row instead, without a word.
func (p *shape) fits(function string, kind int32, chip acceptance.Chip) error {
	n, lacks := p.lengths[0], unimplemented(fmt.Sprintf("%s of length %d on this chip", function, p.lengths[0]))
	power := bits.OnesCount(uint(n)) == 1
	switch {
	case chip != acceptance.Ascend910B && chip != acceptance.Ascend950:
		return refuse(abi.ACLFFT_EXEC_FAILED, function+": the library has kernels for Ascend910B and Ascend950")
	case len(p.lengths) == 2:
		sizes := []int{32, 64, 128}
		switch {
		case chip == acceptance.Ascend950 || kind != abi.ACLFFT_C2C:
			return unimplemented(function + " in two dimensions on this chip")
		case !slices.Contains(sizes, n) || !slices.Contains(sizes, p.lengths[1]):
			return refuse(abi.ACLFFT_NOT_SUPPORTED, fmt.Sprintf("%s: %d x %d; both are 32, 64 or 128", function, n, p.lengths[1]))
		}
	case chip == acceptance.Ascend910B && kind != abi.ACLFFT_C2C:
		if n > 1024 {
			return lacks
		}
	case chip == acceptance.Ascend910B && p.stride > 1:
		if !power || n < 256 || n > 262144 {
			return refuse(abi.ACLFFT_EXEC_FAILED, fmt.Sprintf("%s: columns of %d numbers; they are powers of two from 256 to 262144 (the library throws an exception that ends the process)", function, n))
		}
	case chip == acceptance.Ascend910B:
		if n > 256 && !power {
			return lacks
		}
	case kind == abi.ACLFFT_C2C:
		p.stride = 1
		if n <= 256 || !smooth(n) {
			return lacks
		}
	case kind == abi.ACLFFT_R2C:
		if n > 4096 && !smooth(n) {
			return lacks
		}
	case n <= 1024 || !smooth(n):
		return lacks
	}
	return nil
}

// smooth reports whether no prime factor is greater than 47.
func smooth(n int) bool {
	for p := 2; p <= 47; p++ {
		for n%p == 0 {
			n /= p
		}
	}
	return n == 1
}

// complex transforms the numbers in place.
func (p *shape) complex(x []complex128, sign float64) {
	n := p.lengths[0]
	if len(p.lengths) == 2 {
		columns := p.lengths[1]
		for b := range p.batch {
			page := x[b*n*columns:][:n*columns]
			for row := range n {
				copy(page[row*columns:], transformed(page[row*columns:][:columns], sign))
			}
			along(page, n, columns, sign)
		}
		return
	}
	if p.stride > 1 {
		along(x, n, p.stride, sign)
		return
	}
	for b := range p.batch {
		copy(x[b*n:], transformed(x[b*n:][:n], sign))
	}
}

// along transforms the columns of n rows.
func along(x []complex128, n, columns int, sign float64) {
	column := make([]complex128, n)
	for c := range columns {
		for i := range column {
			column[i] = x[i*columns+c]
		}
		for i, v := range transformed(column, sign) {
			x[i*columns+c] = v
		}
	}
}

// values is host memory of the program.
func values[T any](at uintptr, n int) []T {
	return unsafe.Slice((*T)(rt.Pointer(uint64(at))), n)
}

func widened(x []complex64) []complex128 {
	y := make([]complex128, len(x))
	for i, v := range x {
		y[i] = complex128(v)
	}
	return y
}

func narrow(to []complex64, from []complex128) {
	for i := range to {
		to[i] = complex64(from[i])
	}
}
