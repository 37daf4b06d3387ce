package blas

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/element"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
	"github.com/goascend/cann/internal/half"
)

// part is the part of a matrix that a function touches.
type part uint8

const (
	whole part = iota
	upper
	lower
)

// view is a vector or a matrix in device memory.
type view struct {
	name       string
	addr       uint64
	dt         dtype.Type
	rows, cols int
	down, over int // elements from a row to the next one, and from a column to the next one
	part       part
}

// vector returns n elements that lie inc apart. With a negative inc the first one has the highest address.
func vector(name string, addr uintptr, n, inc int, dt dtype.Type) view {
	return view{name: name, addr: uint64(addr), dt: dt, rows: n, cols: 1, down: inc}
}

// matrix returns a matrix whose columns lie ld apart.
func matrix(name string, addr uintptr, rows, cols, ld int, dt dtype.Type) view {
	return view{name: name, addr: uint64(addr), dt: dt, rows: rows, cols: cols, down: 1, over: ld}
}

// byRows returns a matrix whose rows lie ld apart.
func byRows(name string, addr uintptr, rows, cols, ld int, dt dtype.Type) view {
	return view{name: name, addr: uint64(addr), dt: dt, rows: rows, cols: cols, down: ld, over: 1}
}

// half returns the view with one triangle and the diagonal.
func (v view) half(p part) view {
	v.part = p
	return v
}

func (v view) empty() bool { return v.rows == 0 || v.cols == 0 }

// place returns the offset of an element from addr.
func (v view) place(row, col int) int {
	if v.down < 0 {
		row -= v.rows - 1
	}
	return row*v.down + col*v.over
}

// extent returns the number of elements from addr to the last one.
func (v view) extent() int {
	if v.empty() {
		return 0
	}
	return (v.rows-1)*max(v.down, -v.down) + (v.cols-1)*v.over + 1
}

// span returns the rows of a column that the part has.
func (v view) span(col int) (from, to int) {
	switch v.part {
	case upper:
		return 0, min(col+1, v.rows)
	case lower:
		return min(col, v.rows), v.rows
	}
	return 0, v.rows
}

func (v view) accesses(touch sanitize.Touch) (all []sanitize.Access) {
	if v.huge() {
		return nil // the task fails
	}
	size := uint64(v.dt.Size())
	down := int64(max(v.down, -v.down))
	if v.part == whole {
		if v.empty() {
			return nil
		}
		return []sanitize.Access{{Name: v.name, Touch: touch, Addr: v.addr, Item: size, Shape: []int64{int64(v.cols), int64(v.rows)}, Strides: []int64{int64(v.over), down}}}
	}
	for c := range v.cols {
		if from, to := v.span(c); from < to {
			all = append(all, sanitize.Access{Name: v.name, Touch: touch, Addr: v.addr + uint64(v.place(from, c))*size, Item: size, Shape: []int64{int64(to - from)}, Strides: []int64{down}})
		}
	}
	return all
}

// dense is a matrix in host memory, column by column.
type dense struct {
	rows, cols int
	v          []complex128
}

func zeros(rows, cols int) dense { return dense{rows, cols, make([]complex128, rows*cols)} }

func (d dense) at(row, col int) *complex128 { return &d.v[col*d.rows+row] }

// device is the memory that a task works in.
type device struct {
	memory *rt.Memory
	err    error // the first failure; everything after it does nothing
}

// huge reports whether the view is larger than any memory.
func (v view) huge() bool {
	const most = 1 << 40
	return float64(v.rows)*max(1, math.Abs(float64(v.down)))+float64(v.cols)*max(1, float64(v.over)) > most || float64(v.rows)*float64(v.cols) > most
}

// bytes returns the view's memory, or nil after a failure.
func (d *device) bytes(v view) []byte {
	if d.err != nil || v.empty() {
		return nil
	}
	if v.huge() {
		d.err = fmt.Errorf("%s: %d x %d elements are more than any memory has", v.name, v.rows, v.cols)
		return nil
	}
	at, err := d.memory.Resolve(v.addr, int64(v.extent()*v.dt.Size()))
	if err != nil {
		d.err = fmt.Errorf("%s: %w", v.name, err)
		return nil
	}
	return unsafe.Slice((*byte)(at), v.extent()*v.dt.Size())
}

// load returns the elements of the view's part, with zeros elsewhere.
func (d *device) load(v view) dense {
	x := zeros(v.rows, v.cols)
	b := d.bytes(v)
	if b == nil {
		return x
	}
	size := v.dt.Size()
	var one [1]float64
	for c := range v.cols {
		from, to := v.span(c)
		for r := from; r < to; r++ {
			e := b[v.place(r, c)*size:][:size]
			to := &x.v[c*v.rows+r]
			switch v.dt {
			case dtype.Complex64:
				*to = complex128(*(*complex64)(unsafe.Pointer(&e[0])))
			case dtype.Int32:
				*to = complex(float64(*(*int32)(unsafe.Pointer(&e[0]))), 0)
			default:
				element.Floats(one[:], e, v.dt)
				*to = complex(one[0], 0)
			}
		}
	}
	return x
}

// store rounds the elements of the view's part and writes them.
func (d *device) store(v view, x dense) {
	b := d.bytes(v)
	if b == nil {
		return
	}
	size := v.dt.Size()
	for c := range v.cols {
		from, to := v.span(c)
		for r := from; r < to; r++ {
			at, e := unsafe.Pointer(&b[v.place(r, c)*size]), x.v[c*v.rows+r]
			switch v.dt {
			case dtype.Complex64:
				*(*complex64)(at) = complex64(e)
			case dtype.Float16:
				*(*half.Float16)(at) = half.Float16FromFloat64(real(e))
			case dtype.BFloat16:
				*(*half.BFloat16)(at) = half.BFloat16FromFloat64(real(e))
			case dtype.Int32:
				*(*int32)(at) = int32(real(e))
			default:
				*(*float32)(at) = float32(real(e))
			}
		}
	}
}

// pointers returns an array of n device addresses in device memory.
func (d *device) pointers(name string, addr uintptr, n int) []uintptr {
	if b := d.bytes(vector(name, addr, n, 1, dtype.Uint64)); b != nil {
		return unsafe.Slice((*uintptr)(unsafe.Pointer(&b[0])), n)
	}
	return make([]uintptr, n)
}

// scalar is a number that a function reads at an address: at the call from host memory, in the task from the device's.
type scalar struct {
	view
	host  complex128
	there bool
}

// scalar returns the number at an address. Most functions dereference it on the host.
func (c *call) scalar(name string, addr uintptr, dt dtype.Type, anywhere bool) scalar {
	s := scalar{view: vector(name, addr, 1, 1, dt)}
	if c.err != nil || !c.need(addr != 0, "%s is null", name) {
		return s
	}
	if s.there = c.l.rt.OnDevice(uint64(addr)); s.there && !anywhere {
		c.err = refuse(abi.ACLBLAS_STATUS_EXECUTION_FAILED, "%s: %s is device memory; the library reads it on the host, which ends the process", c.name, name)
		return s
	}
	if s.there {
		c.reads(s.view)
		return s
	}
	switch at := rt.Pointer(uint64(addr)); dt {
	case dtype.Complex64:
		s.host = complex128(*(*complex64)(at))
	case dtype.Float16:
		s.host = complex(float64((*(*half.Float16)(at)).Float32()), 0)
	case dtype.BFloat16:
		s.host = complex(float64((*(*half.BFloat16)(at)).Float32()), 0)
	default:
		s.host = complex(float64(*(*float32)(at)), 0)
	}
	return s
}

func (d *device) number(s scalar) complex128 {
	if s.there {
		return d.load(s.view).v[0]
	}
	return s.host
}

// call is one call of a function that queues a task.
type call struct {
	l       *Library
	t       *rt.Thread
	h       *Handle
	name    string
	err     error
	done    bool // nothing is left to do
	touched []touched
}

// touched is a view with what the task does to it.
type touched struct {
	view
	touch sanitize.Touch
}

// begin starts a call of a function that some chips have.
func (l *Library) begin(t *rt.Thread, name string, h *Handle, chips int) *call {
	return &call{l: l, t: t, h: h, name: name, err: l.built(name, chips)}
}

// need refuses an invalid value.
func (c *call) need(fits bool, format string, args ...any) bool {
	return c.code(fits, abi.ACLBLAS_STATUS_INVALID_VALUE, format, args...)
}

// supports refuses what the library has not.
func (c *call) supports(fits bool, format string, args ...any) bool {
	return c.code(fits, abi.ACLBLAS_STATUS_NOT_SUPPORTED, format, args...)
}

func (c *call) code(fits bool, code int32, format string, args ...any) bool {
	if c.err == nil && !c.done && !fits {
		c.err = refuse(code, c.name+": "+format, args...)
	}
	return c.err == nil
}

// quick ends a call that has nothing to do, before what is checked after it.
func (c *call) quick(nothing bool) { c.done = c.done || c.err == nil && nothing }

// sizes refuses negative ones.
func (c *call) sizes(n ...int32) {
	for _, n := range n {
		c.need(n >= 0, "a size is %d", n)
	}
}

// steps refuses strides of vectors that are zero, or that cannot be negated.
func (c *call) steps(inc ...int32) {
	for _, inc := range inc {
		c.need(inc != 0 && inc != math.MinInt32, "a stride is %d", inc)
	}
}

// leading refuses columns that overlap.
func (c *call) leading(name string, ld, least int32) {
	c.need(ld >= max(1, least), "%s is %d; it is at least %d", name, ld, max(1, least))
}

// present refuses null addresses.
func (c *call) present(addr ...uintptr) {
	for _, a := range addr {
		c.need(a != 0, "an operand is null")
	}
}

func (c *call) operation(code int32, trans ...int32) {
	for _, op := range trans {
		c.code(op == abi.ACLBLAS_OP_N || op == abi.ACLBLAS_OP_T || op == abi.ACLBLAS_OP_C, code, "%d is no aclblasOperation", op)
	}
}

func (c *call) triangle(code, uplo int32) part {
	c.code(uplo == abi.ACLBLAS_UPPER || uplo == abi.ACLBLAS_LOWER, code, "%d is no aclblasFillMode", uplo)
	if uplo == abi.ACLBLAS_UPPER {
		return upper
	}
	return lower
}

func (c *call) diagonal(diag int32) {
	c.need(diag == abi.ACLBLAS_UNIT || diag == abi.ACLBLAS_NON_UNIT, "%d is no aclblasDiagType", diag)
}

func (c *call) side(code, side int32) {
	c.code(side == abi.ACLBLAS_SIDE_LEFT || side == abi.ACLBLAS_SIDE_RIGHT, code, "%d is no aclblasSideMode", side)
}

// reads, writes and updates state what the task does, for the sanitizers.
func (c *call) reads(v ...view)  { c.touch(sanitize.Reads, v) }
func (c *call) writes(v ...view) { c.touch(sanitize.Writes, v) }
func (c *call) updates(v ...view) {
	c.reads(v...)
	c.writes(v...)
}

func (c *call) touch(touch sanitize.Touch, v []view) {
	if c.err == nil && !c.done {
		for _, v := range v {
			c.touched = append(c.touched, touched{v, touch})
		}
	}
}

// run queues the task, unless the call was refused or is done.
func (c *call) run(compute func(d *device)) error {
	if c.err != nil || c.done {
		return c.err
	}
	s, code := c.l.rt.Stream(c.t, c.h.stream)
	if s == nil {
		return refuse(abi.ACLBLAS_STATUS_EXECUTION_FAILED, "%s: the handle's stream is not live in this context (%d)", c.name, int32(code))
	}
	views := c.touched
	code = c.l.rt.Submit(c.t, s, rt.Task{
		Name: c.name, Repeatable: true,
		Accesses: func() (all []sanitize.Access) {
			for _, v := range views {
				all = append(all, v.accesses(v.touch)...)
			}
			return all
		},
		Run: func() error {
			d := &device{memory: s.Memory()}
			for _, v := range views { // before anything is allocated that has their sizes
				d.bytes(v.view)
			}
			if d.err == nil {
				compute(d)
			}
			if d.err != nil {
				return &rt.Fault{Code: rt.VectorException, Text: fmt.Sprintf("%s: %v", c.name, d.err)}
			}
			return nil
		},
	})
	if code != 0 {
		return refuse(abi.ACLBLAS_STATUS_EXECUTION_FAILED, "%s: queueing returned %d", c.name, int32(code))
	}
	return nil
}
