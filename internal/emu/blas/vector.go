package blas

import (
	"math"
	"math/cmplx"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// complexValue is an aclblasComplex that is passed by value.
type complexValue struct{ re, im float32 }

func (c complexValue) wide() complex128 { return complex(float64(c.re), float64(c.im)) }

const (
	f32 = dtype.Float32
	c64 = dtype.Complex64
)

// reduce queues the computation of one number from vectors. Without elements it is 0.
func (c *call) reduce(result uintptr, dt dtype.Type, of []view, f func(x ...dense) complex128) error {
	out := vector("result", result, 1, 1, dt)
	c.reads(of...)
	c.writes(out)
	return c.run(func(d *device) {
		x := make([]dense, len(of))
		for i, v := range of {
			x[i] = d.load(v)
		}
		d.store(out, dense{1, 1, []complex128{f(x...)}})
	})
}

// some is n, or 0 for a vector that the function does not read: none has a stride below 1.
func some(n, inc int) int {
	if inc < 1 {
		return 0
	}
	return max(n, 0)
}

func (l *Library) aclblasSasum(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, result uintptr) error {
	f := l.begin(t, "aclblasSasum", handle, onBoth)
	v := vector("x", x, some(int(n), int(incx)), int(incx), f32)
	f.present(result)
	f.need(v.empty() || x != 0, "x is null")
	return f.reduce(result, f32, []view{v}, func(x ...dense) (sum complex128) {
		for _, e := range x[0].v {
			sum += complex(math.Abs(real(e)), 0)
		}
		return sum
	})
}

func dotted(conjugate bool) func(x ...dense) complex128 {
	return func(x ...dense) (sum complex128) {
		for i, e := range x[0].v {
			if conjugate {
				e = cmplx.Conj(e)
			}
			sum += times(e, x[1].v[i])
		}
		return sum
	}
}

// dot is the product of two vectors; only the older functions demand that their elements follow each other.
func (c *call) dot(n int64, x uintptr, incx int64, y uintptr, incy int64, result uintptr, dt dtype.Type, contiguous, conjugate bool) error {
	c.present(result)
	c.need(n >= 0, "n is %d", n)
	if contiguous {
		c.need(incx == 1 && incy == 1, "strides %d and %d; the function takes 1", incx, incy)
	}
	c.need(incx != 0 && incy != 0, "a stride is 0")
	if n > 0 {
		c.present(x, y)
	}
	return c.reduce(result, dt, []view{vector("x", x, int(n), int(incx), dt), vector("y", y, int(n), int(incy), dt)}, dotted(conjugate))
}

// aclblasSdot takes strides on a 950, and 1 on a 910B.
func (l *Library) aclblasSdot(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, y uintptr, incy int64, result uintptr) error {
	return l.begin(t, "aclblasSdot", handle, onBoth).dot(n, x, incx, y, incy, result, f32, l.built("", on910B) == nil, false)
}

func (l *Library) aclblasCdotu(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, y uintptr, incy int64, result uintptr) error {
	return l.begin(t, "aclblasCdotu", handle, on910B).dot(n, x, incx, y, incy, result, c64, true, false)
}

func (l *Library) aclblasCdotc(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, y uintptr, incy int64, result uintptr) error {
	return l.begin(t, "aclblasCdotc", handle, on910B).dot(n, x, incx, y, incy, result, c64, true, true)
}

// reals reports whether a type is one of those of the functions whose names end in Ex.
func reals(dt dtype.Type) bool {
	return dt == dtype.Float32 || dt == dtype.Float16 || dt == dtype.BFloat16
}

func (l *Library) aclblasDotEx(t *rt.Thread, handle *Handle, n int32, x uintptr, xType dtype.Type, incx int32, y uintptr, yType dtype.Type, incy int32, result uintptr, resultType, executionType dtype.Type) error {
	f := l.begin(t, "aclblasDotEx", handle, on950)
	f.sizes(n)
	f.need(incx != 0 && incy != 0, "a stride is 0")
	f.present(result)
	f.need(n == 0 || x != 0 && y != 0, "x or y is null")
	f.supports(xType == yType && resultType == xType && reals(xType), "x is %v, y %v and the result %v; they are of one type, float32, float16 or bfloat16", xType, yType, resultType)
	f.supports(executionType == f32, "executionType is %v; it is float32", executionType)
	return f.reduce(result, resultType, []view{vector("x", x, int(n), int(incx), xType), vector("y", y, int(n), int(incy), yType)}, dotted(false))
}

func norm(x ...dense) complex128 {
	sum := 0.0
	for _, e := range x[0].v {
		sum += real(e)*real(e) + imag(e)*imag(e)
	}
	return complex(math.Sqrt(sum), 0)
}

func (l *Library) aclblasSnrm2(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, result uintptr) error {
	f := l.begin(t, "aclblasSnrm2", handle, onBoth)
	v := vector("x", x, some(int(n), int(incx)), int(incx), f32)
	f.present(result)
	f.need(v.empty() || x != 0, "x is null")
	return f.reduce(result, f32, []view{v}, norm)
}

func (l *Library) aclblasScnrm2(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, result uintptr) error {
	f := l.begin(t, "aclblasScnrm2", handle, on910B)
	f.present(result)
	f.need(n >= 0 && incx == 1, "n is %d and incx %d; the function takes 1", n, incx)
	f.need(n == 0 || x != 0, "x is null")
	return f.reduce(result, f32, []view{vector("x", x, int(n), 1, c64)}, norm)
}

func (l *Library) aclblasSnrm2Ex(t *rt.Thread, handle *Handle, xtype dtype.Type, x uintptr, n, incx int64, result uintptr) error {
	f := l.begin(t, "aclblasSnrm2Ex", handle, on950)
	f.need(n >= 0 && n <= math.MaxUint32, "n is %d", n)
	f.need(incx != 0 && incx != math.MinInt32 && incx != math.MinInt64, "incx is %d", incx)
	f.need(xtype == dtype.Float32 || xtype == dtype.Float16, "x is %v; it is float32 or float16", xtype)
	f.present(result)
	f.need(n == 0 || x != 0, "x is null")
	return f.reduce(result, f32, []view{vector("x", x, int(n), int(incx), xtype)}, norm)
}

// extreme returns the place of the first element for which none is better, counted from 1; 0 without elements.
func extreme(better func(a, b float64) bool) func(x ...dense) complex128 {
	return func(x ...dense) complex128 {
		best, at := 0.0, 0
		for i, e := range x[0].v {
			if a := math.Abs(real(e)) + math.Abs(imag(e)); i == 0 || better(a, best) {
				best, at = a, i+1
			}
		}
		return complex(float64(at), 0)
	}
}

func (c *call) index(n int32, x uintptr, incx int32, result uintptr, better func(a, b float64) bool) error {
	c.sizes(n)
	c.present(x, result)
	return c.reduce(result, dtype.Int32, []view{vector("x", x, some(int(n), int(incx)), int(incx), f32)}, extreme(better))
}

func (l *Library) aclblasIsamax(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, result uintptr) error {
	return l.begin(t, "aclblasIsamax", handle, on950).index(n, x, incx, result, func(a, b float64) bool { return a > b })
}

func (l *Library) aclblasIsamin(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, result uintptr) error {
	return l.begin(t, "aclblasIsamin", handle, on950).index(n, x, incx, result, func(a, b float64) bool { return a < b })
}

// aclblasIamax is the older form of aclblasIsamax, for the 910B; it counts from 1, too.
func (l *Library) aclblasIamax(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, result uintptr) error {
	return l.begin(t, "aclblasIamax", handle, on910B).index(int32(n), x, int32(incx), result, func(a, b float64) bool { return a > b })
}

// change queues what a function does to vectors of n elements. Functions that change x and y get both.
func (c *call) change(vectors []view, written int, numbers []scalar, f func(x []dense, s []complex128)) error {
	c.reads(vectors...)
	c.writes(vectors[len(vectors)-written:]...)
	return c.run(func(d *device) {
		x, s := make([]dense, len(vectors)), make([]complex128, len(numbers))
		for i, v := range vectors {
			x[i] = d.load(v)
		}
		for i, n := range numbers {
			s[i] = d.number(n)
		}
		f(x, s)
		for i := len(vectors) - written; i < len(vectors); i++ {
			d.store(vectors[i], x[i])
		}
	})
}

func scaled(x []dense, s []complex128) {
	for i := range x[0].v {
		x[0].v[i] = times(s[0], x[0].v[i])
	}
}

// aclblasSscal looks at incx on a 950 only: on a 910B the elements follow each other, whatever incx is.
func (l *Library) aclblasSscal(t *rt.Thread, handle *Handle, n int32, alpha, x uintptr, incx int32) error {
	f := l.begin(t, "aclblasSscal", handle, onBoth)
	if l.built("", on910B) == nil {
		incx = 1
	}
	f.quick(n <= 0)
	s := f.scalar("alpha", alpha, f32, false)
	f.present(x)
	f.quick(incx <= 0)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), f32)}, 1, []scalar{s}, scaled)
}

func (l *Library) aclblasScalex(t *rt.Thread, handle *Handle, n int32, alpha uintptr, alphaType dtype.Type, x uintptr, xType dtype.Type, incx int32, executionType dtype.Type) error {
	f := l.begin(t, "aclblasScalex", handle, on950)
	f.sizes(n)
	f.quick(n == 0)
	f.supports(alphaType == f32 && executionType == f32 && reals(xType), "alpha is %v, x %v and executionType %v", alphaType, xType, executionType)
	s := f.scalar("alpha", alpha, f32, true)
	f.present(x)
	f.quick(incx <= 0)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), xType)}, 1, []scalar{s}, scaled)
}

func (l *Library) aclblasCscal(t *rt.Thread, handle *Handle, n int64, alpha complexValue, x uintptr, incx int64) error {
	f := l.begin(t, "aclblasCscal", handle, on910B)
	f.quick(n <= 0)
	f.present(x)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), c64)}, 1, []scalar{{host: alpha.wide()}}, scaled)
}

func (l *Library) aclblasCsscal(t *rt.Thread, handle *Handle, n int64, alpha float32, x uintptr, incx int64) error {
	f := l.begin(t, "aclblasCsscal", handle, on910B)
	f.quick(n <= 0)
	f.present(x)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), c64)}, 1, []scalar{{host: complex(float64(alpha), 0)}}, scaled)
}

func axpy(x []dense, s []complex128) {
	for i, e := range x[0].v {
		x[1].v[i] += times(s[0], e)
	}
}

func (l *Library) aclblasSaxpy(t *rt.Thread, handle *Handle, n int32, alpha, x uintptr, incx int32, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSaxpy", handle, on950)
	f.quick(n <= 0)
	s := f.scalar("alpha", alpha, f32, false)
	f.present(x, y)
	f.steps(incx, incy)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), f32), vector("y", y, max(0, int(n)), int(incy), f32)}, 1, []scalar{s}, axpy)
}

func (l *Library) aclblasAxpyEx(t *rt.Thread, handle *Handle, n int32, alpha uintptr, alphaType dtype.Type, x uintptr, xType dtype.Type, incx int32, y uintptr, yType dtype.Type, incy int32, executionType dtype.Type) error {
	f := l.begin(t, "aclblasAxpyEx", handle, on950)
	f.sizes(n)
	f.quick(n == 0)
	f.supports(alphaType == f32 && executionType == f32 && reals(xType) && xType == yType, "alpha is %v, x %v, y %v and executionType %v", alphaType, xType, yType, executionType)
	s := f.scalar("alpha", alpha, f32, true)
	f.present(x, y)
	f.steps(incx, incy)
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), xType), vector("y", y, max(0, int(n)), int(incy), yType)}, 1, []scalar{s}, axpy)
}

func (l *Library) aclblasCaxpy(t *rt.Thread, handle *Handle, n int64, alpha complexValue, x uintptr, incx int64, y uintptr, incy int64) error {
	f := l.begin(t, "aclblasCaxpy", handle, on910B)
	f.quick(n <= 0)
	f.present(x, y)
	f.need(incx != 0 && incy != 0, "a stride is 0")
	return f.change([]view{vector("x", x, max(0, int(n)), int(incx), c64), vector("y", y, max(0, int(n)), int(incy), c64)}, 1, []scalar{{host: alpha.wide()}}, axpy)
}

// move copies x to y, or exchanges them.
func (c *call) move(n int, x uintptr, incx int, y uintptr, incy int, dt dtype.Type, exchange bool) error {
	c.quick(n <= 0)
	c.present(x, y)
	c.need(incx != 0 && incy != 0, "a stride is 0")
	from, to := vector("x", x, max(0, n), incx, dt), vector("y", y, max(0, n), incy, dt)
	c.reads(from)
	c.writes(to)
	if exchange {
		c.reads(to)
		c.writes(from)
	}
	return c.run(func(d *device) {
		a := d.load(from)
		if exchange {
			d.store(from, d.load(to))
		}
		d.store(to, a)
	})
}

func (l *Library) aclblasScopy(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasScopy", handle, on950)
	f.sizes(n)
	return f.move(int(n), x, int(incx), y, int(incy), f32, false)
}

func (l *Library) aclblasScopy_legacy(t *rt.Thread, handle *Handle, x, y uintptr, n, incx, incy int64) error {
	return l.begin(t, "aclblasScopy_legacy", handle, on910B).move(int(n), x, int(incx), y, int(incy), f32, false)
}

func (l *Library) aclblasCcopy(t *rt.Thread, handle *Handle, x, y uintptr, n, incx, incy int64) error {
	return l.begin(t, "aclblasCcopy", handle, on910B).move(int(n), x, int(incx), y, int(incy), c64, false)
}

// aclblasSswap takes vectors whose elements follow each other.
func (l *Library) aclblasSswap(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, y uintptr, incy int32) error {
	f := l.begin(t, "aclblasSswap", handle, onBoth)
	f.quick(n <= 0)
	f.present(x, y)
	f.need(incx == 1 && incy == 1, "strides %d and %d; the function takes 1", incx, incy)
	return f.move(int(n), x, int(incx), y, int(incy), f32, true)
}

func (l *Library) aclblasCswap(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, y uintptr, incy int64) error {
	return l.begin(t, "aclblasCswap", handle, on910B).move(int(n), x, int(incx), y, int(incy), c64, true)
}

// rotate turns the pairs of two vectors. A stride of 0 turns one element again and again.
func (c *call) rotate(n int, x uintptr, incx int, y uintptr, incy int, dt dtype.Type, cosine, sine scalar) error {
	a, b := vector("x", x, max(0, n), incx, dt), vector("y", y, max(0, n), incy, dt)
	c.updates(a, b)
	return c.run(func(d *device) {
		cos, sin := d.number(cosine), d.number(sine)
		one := func(v view, i int) view {
			v.addr += uint64(v.place(i, 0) * v.dt.Size())
			v.rows = 1
			return v
		}
		for i := range max(0, n) {
			p, q := d.load(one(a, i)), d.load(one(b, i))
			if d.err != nil {
				return
			}
			u, v := p.v[0], q.v[0]
			p.v[0], q.v[0] = times(cos, u)+times(sin, v), times(cos, v)-times(sin, u)
			d.store(one(a, i), p)
			d.store(one(b, i), q)
		}
	})
}

func (l *Library) aclblasSrot(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, y uintptr, incy int32, c, s uintptr) error {
	f := l.begin(t, "aclblasSrot", handle, on950)
	f.quick(n <= 0)
	f.present(x, y)
	for _, inc := range []int32{incx, incy} {
		far := (int64(n) - 1) * int64(inc)
		f.need(far == int64(int32(far)), "the last element is %d elements away", far)
	}
	return f.rotate(int(n), x, int(incx), y, int(incy), f32, f.scalar("c", c, f32, true), f.scalar("s", s, f32, true))
}

func (l *Library) aclblasCsrot(t *rt.Thread, handle *Handle, n int64, x uintptr, incx int64, y uintptr, incy int64, c, s float32) error {
	f := l.begin(t, "aclblasCsrot", handle, on910B)
	f.quick(n <= 0)
	f.present(x, y)
	return f.rotate(int(n), x, int(incx), y, int(incy), c64, scalar{host: complex(float64(c), 0)}, scalar{host: complex(float64(s), 0)})
}

func (l *Library) aclblasRotEx(t *rt.Thread, handle *Handle, n int32, x uintptr, xType dtype.Type, incx int32, y uintptr, yType dtype.Type, incy int32, c, s uintptr, csType, executionType dtype.Type) error {
	f := l.begin(t, "aclblasRotEx", handle, on950)
	f.sizes(n)
	f.need(incx != 0 && incy != 0, "a stride is 0")
	f.supports(executionType == f32 && reals(xType) && xType == yType && xType == csType, "x is %v, y %v, c and s %v and executionType %v", xType, yType, csType, executionType)
	f.quick(n == 0)
	f.present(x, y)
	return f.rotate(int(n), x, int(incx), y, int(incy), xType, f.scalar("c", c, csType, true), f.scalar("s", s, csType, true))
}

// modified reads the five numbers of a modified rotation: a flag and the elements h11, h21, h12, h22 that it does not imply.
func modified(p []float64) (h11, h21, h12, h22 float64) {
	switch p[0] {
	case -1:
		return p[1], p[2], p[3], p[4]
	case 0:
		return 1, p[2], p[3], 1
	case 1:
		return p[1], -1, 1, p[4]
	}
	return 1, 0, 0, 1
}

func (l *Library) aclblasSrotm(t *rt.Thread, handle *Handle, n int32, x uintptr, incx int32, y uintptr, incy int32, param uintptr) error {
	f := l.begin(t, "aclblasSrotm", handle, onBoth)
	f.quick(n <= 0)
	f.present(x, y, param)
	f.need(incx != 0 && incy != 0, "a stride is 0")
	var p [5]float64
	if f.err == nil && !f.done {
		for i := range p {
			p[i] = real(f.scalar("param", param+uintptr(4*i), f32, false).host)
		}
	}
	h11, h21, h12, h22 := modified(p[:])
	f.quick(p[0] == -2)
	vectors := []view{vector("x", x, max(0, int(n)), int(incx), f32), vector("y", y, max(0, int(n)), int(incy), f32)}
	return f.change(vectors, 2, nil, func(v []dense, _ []complex128) {
		for i, a := range v[0].v {
			b := v[1].v[i]
			v[0].v[i] = complex(h11*real(a)+h12*real(b), 0)
			v[1].v[i] = complex(h21*real(a)+h22*real(b), 0)
		}
	})
}

// numbers queues a computation on single numbers that lie all in host memory, where it is done at once, or all on the device.
func (c *call) numbers(lengths []int, addr []uintptr, f func(x [][]float64)) error {
	c.present(addr...)
	if c.err != nil {
		return c.err
	}
	onDevice := 0
	for _, a := range addr {
		if c.l.rt.OnDevice(uint64(a)) {
			onDevice++
		}
	}
	c.need(onDevice == 0 || onDevice == len(addr), "%d of %d addresses are device memory; all are, or none", onDevice, len(addr))
	if c.err != nil {
		return c.err
	}
	if onDevice == 0 {
		x := make([][]float64, len(addr))
		for i, a := range addr {
			x[i] = make([]float64, lengths[i])
			for j := range x[i] {
				x[i][j] = float64(*(*float32)(rt.Pointer(uint64(a) + uint64(4*j))))
			}
		}
		f(x)
		for i, a := range addr {
			for j, v := range x[i] {
				*(*float32)(rt.Pointer(uint64(a) + uint64(4*j))) = float32(v)
			}
		}
		return nil
	}
	views := make([]view, len(addr))
	for i, a := range addr {
		views[i] = vector("number", a, lengths[i], 1, f32)
	}
	c.updates(views...)
	return c.run(func(d *device) {
		x := make([][]float64, len(views))
		for i, v := range views {
			x[i] = make([]float64, lengths[i])
			for j, e := range d.load(v).v {
				x[i][j] = real(e)
			}
		}
		f(x)
		for i, v := range views {
			out := zeros(lengths[i], 1)
			for j, e := range x[i] {
				out.v[j] = complex(e, 0)
			}
			d.store(v, out)
		}
	})
}

func (l *Library) aclblasSrotg(t *rt.Thread, handle *Handle, a, b, c, s uintptr) error {
	return l.begin(t, "aclblasSrotg", handle, onBoth).numbers([]int{1, 1, 1, 1}, []uintptr{a, b, c, s}, func(x [][]float64) {
		a, b := x[0][0], x[1][0]
		r := math.Hypot(a, b)
		if math.Abs(a) > math.Abs(b) && a < 0 || math.Abs(a) <= math.Abs(b) && b < 0 {
			r = -r
		}
		cos, sin, z := 1.0, 0.0, 0.0
		if r != 0 {
			cos, sin, z = a/r, b/r, 1.0
			if math.Abs(a) > math.Abs(b) {
				z = sin
			} else if cos != 0 {
				z = 1 / cos
			}
		}
		x[0][0], x[1][0], x[2][0], x[3][0] = r, z, cos, sin
	})
}

func (l *Library) aclblasSrotmg(t *rt.Thread, handle *Handle, d1, d2, x1, y1, param uintptr) error {
	return l.begin(t, "aclblasSrotmg", handle, on950).numbers([]int{1, 1, 1, 1, 5}, []uintptr{d1, d2, x1, y1, param}, func(x [][]float64) {
		x[0][0], x[1][0], x[2][0] = modify(x[0][0], x[1][0], x[2][0], x[3][0], x[4])
	})
}

// modify makes the modified rotation that takes y away (Lawson, Hanson, Kincaid and Krogh, 1979), and rescales d1 and d2 by
// powers of 4096. Elements of param that its flag implies stay aarray they were.
func modify(d1, d2, x, y float64, param []float64) (float64, float64, float64) {
	const gamma = 4096.0
	var flag, h11, h12, h21, h22 float64
	zero := func() (float64, float64, float64) {
		copy(param, []float64{-1, 0, 0, 0, 0})
		return 0, 0, 0
	}
	if d1 < 0 {
		return zero()
	}
	p2 := d2 * y
	if p2 == 0 {
		param[0] = -2
		return d1, d2, x
	}
	p1 := d1 * x
	q2, q1 := p2*y, p1*x
	if math.Abs(q1) > math.Abs(q2) {
		h21, h12 = -y/x, p2/p1
		u := 1 - h12*h21
		if u <= 0 {
			return zero()
		}
		flag, h11, h22 = 0, 1, 1
		d1, d2, x = d1/u, d2/u, x*u
	} else {
		if q2 < 0 {
			return zero()
		}
		flag, h11, h22 = 1, p1/p2, x/y
		h12, h21 = 1, -1
		u := 1 + h11*h22
		d1, d2, x = d2/u, d1/u, y*u
	}
	for d1 != 0 && (d1 <= 1/(gamma*gamma) || d1 >= gamma*gamma) {
		flag = -1
		if d1 <= 1/(gamma*gamma) {
			d1, x, h11, h12 = d1*gamma*gamma, x/gamma, h11/gamma, h12/gamma
		} else {
			d1, x, h11, h12 = d1/(gamma*gamma), x*gamma, h11*gamma, h12*gamma
		}
	}
	for d2 != 0 && (math.Abs(d2) <= 1/(gamma*gamma) || math.Abs(d2) >= gamma*gamma) {
		flag = -1
		if math.Abs(d2) <= 1/(gamma*gamma) {
			d2, h21, h22 = d2*gamma*gamma, h21/gamma, h22/gamma
		} else {
			d2, h21, h22 = d2/(gamma*gamma), h21*gamma, h22*gamma
		}
	}
	switch param[0] = flag; flag {
	case -1:
		param[1], param[2], param[3], param[4] = h11, h21, h12, h22
	case 0:
		param[2], param[3] = h21, h12
	default:
		param[1], param[4] = h11, h22
	}
	return d1, d2, x
}

// elements multiplies each row of a matrix of complex numbers by one, or each element by another.
func (c *call) elements(m, n int64, a, b, result uintptr, rows bool) error {
	c.quick(m <= 0 || n <= 0)
	c.present(a, b, result)
	x, out := byRows("mat", a, int(m), int(n), int(n), c64), byRows("result", result, int(m), int(n), int(n), c64)
	y := byRows("maty", b, int(m), int(n), int(n), c64)
	if rows {
		y = vector("vec", b, int(m), 1, c64)
	}
	c.reads(x, y)
	c.writes(out)
	return c.run(func(d *device) {
		p, q := d.load(x), d.load(y)
		for i := range p.v {
			j := i
			if rows {
				j = i % p.rows
			}
			p.v[i] *= q.v[j]
		}
		d.store(out, p)
	})
}

func (l *Library) aclblasColwiseMul(t *rt.Thread, handle *Handle, m, n int64, mat, vec, result uintptr) error {
	return l.begin(t, "aclblasColwiseMul", handle, on910B).elements(m, n, mat, vec, result, true)
}

func (l *Library) aclblasComplexMatDot(t *rt.Thread, handle *Handle, m, n int64, matx, maty, result uintptr) error {
	return l.begin(t, "aclblasComplexMatDot", handle, on910B).elements(m, n, matx, maty, result, false)
}
