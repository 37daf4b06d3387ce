package rt

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// place is the kind of memory that an address belongs to.
type place uint8

const (
	pageable place = iota
	pinned
	device
	everywhere // managed memory
)

// onDevice reports whether a device can access the memory under the same address.
func (p place) onDevice() bool { return p == device || p == everywhere }

func (r *Runtime) placeOf(addr, n uint64) place {
	switch {
	case r.deviceOf(addr) != nil:
		return device
	case r.managed.holds(addr):
		return everywhere
	case r.host.isPinned(addr, n):
		return pinned
	}
	return pageable
}

// transfer is a copy of one or more rows.
type transfer struct {
	function           string
	dst, src           uint64
	dstPitch, srcPitch uint64
	width, height      uint64
	kind               int32
	dstPlace, srcPlace place
}

// extent returns the number of bytes from the first to the last byte touched, or math.MaxUint64 when
// there are more.
func extent(pitch, width, height uint64) uint64 {
	high, low := bits.Mul64(pitch, height-1)
	n, carry := bits.Add64(low, width, 0)
	if high+carry > 0 {
		return math.MaxUint64
	}
	return n
}

// check refuses null pointers and a copy kind that contradicts the places of the addresses, for
// example device memory passed as host memory.
func (x *transfer) check(r *Runtime, t *Thread) uint64 {
	if x.dst == 0 || x.src == 0 {
		return t.Null(x.function, "dst or src")
	}
	dst, src := extent(x.dstPitch, x.width, x.height), extent(x.srcPitch, x.width, x.height)
	if max(dst, src) > math.MaxInt64 {
		return t.Fail(ParamInvalid, "EE1003: %s: %d rows of %d bytes, %d and %d apart, are more than any memory has",
			x.function, x.height, x.width, x.dstPitch, x.srcPitch)
	}
	x.dstPlace, x.srcPlace = r.placeOf(x.dst, dst), r.placeOf(x.src, src)
	toDevice, fromDevice := x.dstPlace.onDevice(), x.srcPlace.onDevice()
	var wantTo, wantFrom bool
	switch int64(x.kind) {
	case abi.ACL_MEMCPY_HOST_TO_HOST:
	case abi.ACL_MEMCPY_HOST_TO_DEVICE, abi.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
		wantTo = true
	case abi.ACL_MEMCPY_DEVICE_TO_HOST:
		wantFrom = true
	case abi.ACL_MEMCPY_DEVICE_TO_DEVICE:
		wantTo, wantFrom = true, true
	default:
		return 0 // the direction follows from the addresses
	}
	if toDevice != wantTo && x.dstPlace != everywhere || fromDevice != wantFrom && x.srcPlace != everywhere {
		return t.Fail(ParamInvalid, "EE1003: %s: kind %d does not fit: dst %#x is %s memory, src %#x is %s memory",
			x.function, x.kind, x.dst, sideName(toDevice), x.src, sideName(fromDevice))
	}
	return 0
}

func sideName(onDevice bool) string {
	if onDevice {
		return "device"
	}
	return "host"
}

// OnDevice reports whether a device can access the memory at addr.
func (r *Runtime) OnDevice(addr uint64) bool { return r.placeOf(addr, 1).onDevice() }

// View returns the host memory behind n bytes at addr: host memory itself, or device memory as the
// device of m sees it.
func (r *Runtime) View(m *Memory, addr, n uint64) ([]byte, error) {
	return r.bytes(m, addr, n, r.placeOf(addr, n))
}

// bytes is View for an address whose place is known.
func (r *Runtime) bytes(m *Memory, addr, n uint64, p place) ([]byte, error) {
	if !p.onDevice() {
		return bytes(Pointer(addr), int64(n)), nil
	}
	host, err := m.Resolve(addr, int64(n))
	if err != nil {
		return nil, err
	}
	return bytes(host, int64(n)), nil
}

// run performs the copy as seen from the device whose memory is m; a large one only finds its memory while a schedule is written.
func (x *transfer) run(r *Runtime, m *Memory) error {
	dst, err := r.bytes(m, x.dst, extent(x.dstPitch, x.width, x.height), x.dstPlace)
	if err != nil {
		return fmt.Errorf("%s: dst: %w", x.function, err)
	}
	src, err := r.bytes(m, x.src, extent(x.srcPitch, x.width, x.height), x.srcPlace)
	if err != nil {
		return fmt.Errorf("%s: src: %w", x.function, err)
	}
	if r.Schedule != nil && !r.Schedule.Small(x.width*x.height) {
		return nil
	}
	for row := range x.height {
		copy(dst[row*x.dstPitch:][:x.width], src[row*x.srcPitch:][:x.width])
	}
	return nil
}

// accesses returns the device memory that the copy touches.
func (x *transfer) accesses() []sanitize.Access {
	view := func(name string, touch sanitize.Touch, addr, pitch uint64) sanitize.Access {
		return sanitize.Access{Name: name, Touch: touch, Addr: addr, Item: 1, Shape: []int64{int64(x.height), int64(x.width)}, Strides: []int64{int64(pitch), 1}}
	}
	src, dst := view("src", sanitize.Reads, x.src, x.srcPitch), view("dst", sanitize.Writes, x.dst, x.dstPitch)
	switch {
	case !x.srcPlace.onDevice():
		return []sanitize.Access{dst}
	case !x.dstPlace.onDevice():
		return []sanitize.Access{src}
	}
	src.Touch, dst.From, dst.FromPitch = sanitize.Keeps, x.src, x.srcPitch
	return []sanitize.Access{src, dst}
}

// watch checks what a call of the program has just accessed. It returns the code of a finding, or 0.
func (r *Runtime) watch(t *Thread, name string, accesses func() []sanitize.Access) Code {
	if r.sanitizer == nil {
		return 0
	}
	if finding := r.sanitizer.Call(name, accesses()); finding != "" {
		return (&Fault{Code: VectorException, Text: finding}).Report(t)
	}
	return 0
}

// linear returns a copy of one row. done means that the call ends here with code: there is nothing
// to copy, or the arguments are wrong.
func linear(t *Thread, function string, dst uintptr, destMax uint64, src uintptr, count uint64, kind int32) (x transfer, code Code, done bool) {
	switch {
	case count == 0:
		return x, 0, true
	case dst == 0 || src == 0:
		return x, t.Null(function, "dst or src"), true
	case kind < int32(abi.ACL_MEMCPY_HOST_TO_HOST) || kind > int32(abi.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE):
		return x, t.Fail(InvalidParam, "EH0001: %s: kind %d; 0 to 5 are possible", function, kind), true
	case destMax < count:
		return x, t.Fail(ParamInvalid, "EE1003: %s: destMax %d is less than count %d", function, destMax, count), true
	case dst == src:
		return x, 0, true
	}
	return transfer{function: function, dst: uint64(dst), src: uint64(src), dstPitch: count, srcPitch: count, width: count, height: 1, kind: kind}, 0, false
}

// aclrtMemcpy copies immediately; it does not wait for any stream.
func (r *Runtime) aclrtMemcpy(t *Thread, dst uintptr, destMax uint64, src uintptr, count uint64, kind int32) Code {
	x, code, done := linear(t, "aclrtMemcpy", dst, destMax, src, count, kind)
	if done {
		return code
	}
	return r.now(t, &x)
}

// now checks a transfer and runs it on the calling thread.
func (r *Runtime) now(t *Thread, x *transfer) uint64 {
	if r.Captures.forbid(t) {
		return t.Fail(CaptureForbids, "EE1016: %s: a capture is under way that would not see the copy", x.function)
	}
	if code := x.check(r, t); code != 0 {
		return code
	}
	var m *Memory
	if x.dstPlace.onDevice() || x.srcPlace.onDevice() {
		c, code := r.Current(t)
		if c == nil {
			return code
		}
		m = c.device.memory
	}
	if err := x.run(r, m); err != nil {
		return t.Fail(ParamInvalid, "EE1003: %v", err)
	}
	return r.watch(t, x.function, x.accesses)
}

func (r *Runtime) aclrtMemcpyAsync(t *Thread, dst uintptr, destMax uint64, src uintptr, count uint64, kind int32, stream Handle) Code {
	x, code, done := linear(t, "aclrtMemcpyAsync", dst, destMax, src, count, kind)
	if done {
		return code
	}
	return r.later(t, &x, stream)
}

func (r *Runtime) aclrtMemcpyAsyncWithCondition(t *Thread, dst uintptr, destMax uint64, src uintptr, count uint64, kind int32, stream Handle) Code {
	return r.aclrtMemcpyAsync(t, dst, destMax, src, count, kind, stream)
}

// later queues a transfer. When the host memory is pageable, it waits for the stream and copies
// before it returns, since the caller may change that memory afterwards.
func (r *Runtime) later(t *Thread, x *transfer, stream Handle) Code {
	s, code := r.Stream(t, stream)
	if s == nil {
		return code
	}
	if code := x.check(r, t); code != 0 {
		return code
	}
	if !x.dstPlace.onDevice() && !x.srcPlace.onDevice() {
		return t.Fail(FeatureNotSupported, "EE1005: %s: host to host cannot be asynchronous; use aclrtMemcpy", x.function)
	}
	if x.dstPlace == pageable || x.srcPlace == pageable {
		switch {
		case s.Capture.Load() != nil:
			return t.Fail(ParamInvalid, "EE1016: %s: host memory that is not pinned cannot be captured", x.function)
		case r.Captures.forbid(t):
			return t.Fail(CaptureBlocksAsync, "EE1016: %s: host memory that is not pinned makes the copy wait, which a capture forbids", x.function)
		}
		if f := s.Synchronize(Wait{}); f != nil {
			return f.Report(t)
		}
		if r.Schedule != nil {
			p := x.planned()
			p.Device, p.Stream = s.Device(), s.id
			r.Schedule.Add(*p)
			r.Schedule.waited(s)
		}
		if err := x.run(r, s.Memory()); err != nil {
			return t.Fail(ParamInvalid, "EE1003: %v", err)
		}
		return r.watch(t, x.function, x.accesses)
	}
	m := s.Memory()
	copied := *x
	return r.Submit(t, s, Task{Name: x.function, Repeatable: true, Accesses: copied.accesses, Planned: copied.planned(), Run: func() error { return copied.run(r, m) }})
}

// Largest width in bytes and height in rows of an asynchronous 2-D copy.
const maxAsyncWidth, maxAsyncHeight = 5_000_000, 5_242_880

// planar returns a copy of rows with pitches. done means that the call ends here with code: there
// is nothing to copy, or the arguments are wrong.
func planar(t *Thread, x transfer) (code Code, done bool) {
	switch {
	case x.width == 0 || x.height == 0:
		return 0, true
	case x.dst == 0 || x.src == 0:
		return t.Null(x.function, "dst or src"), true
	case x.width > x.dstPitch || x.width > x.srcPitch:
		return t.Fail(InvalidParam, "EH0001: %s: width %d exceeds pitch %d or %d", x.function, x.width, x.dstPitch, x.srcPitch), true
	case x.kind < int32(abi.ACL_MEMCPY_HOST_TO_DEVICE) || x.kind > int32(abi.ACL_MEMCPY_DEFAULT):
		return t.Fail(InvalidParam, "EH0001: %s: kind %d; use host to device, device to host, device to device or default", x.function, x.kind), true
	}
	return 0, false
}

func (r *Runtime) aclrtMemcpy2d(t *Thread, dst uintptr, dpitch uint64, src uintptr, spitch, width, height uint64, kind int32) Code {
	x := transfer{function: "aclrtMemcpy2d", dst: uint64(dst), dstPitch: dpitch, src: uint64(src), srcPitch: spitch, width: width, height: height, kind: kind}
	if code, done := planar(t, x); done {
		return code
	}
	return r.now(t, &x)
}

func (r *Runtime) aclrtMemcpy2dAsync(t *Thread, dst uintptr, dpitch uint64, src uintptr, spitch, width, height uint64, kind int32, stream Handle) Code {
	x := transfer{function: "aclrtMemcpy2dAsync", dst: uint64(dst), dstPitch: dpitch, src: uint64(src), srcPitch: spitch, width: width, height: height, kind: kind}
	if code, done := planar(t, x); done {
		return code
	}
	if width > maxAsyncWidth || height > maxAsyncHeight {
		return t.Fail(ParamInvalid, "EE1003: aclrtMemcpy2dAsync: %d x %d is more than %d x %d", width, height, maxAsyncWidth, maxAsyncHeight)
	}
	return r.later(t, &x, stream)
}

// filling is a memset.
type filling struct {
	addr, n uint64
	value   byte
	place   place
}

func (f filling) run(r *Runtime, m *Memory) error {
	b, err := r.bytes(m, f.addr, f.n, f.place)
	if err != nil {
		return fmt.Errorf("aclrtMemset: %w", err)
	}
	if r.Schedule != nil && !r.Schedule.Small(f.n) {
		return nil
	}
	if f.value == 0 {
		clear(b)
		return nil
	}
	pattern := b[:min(len(b), 16<<10)]
	pattern[0] = f.value
	for n := 1; n < len(pattern); n *= 2 {
		copy(pattern[n:], pattern[:n])
	}
	for rest := b[len(pattern):]; len(rest) > 0; {
		rest = rest[copy(rest, pattern):]
	}
	return nil
}

func (f filling) accesses() []sanitize.Access {
	return []sanitize.Access{sanitize.Bytes("devPtr", sanitize.Writes, f.addr, f.n)}
}

// filling returns a memset of n bytes at an address with room for max bytes. Host memory must have
// been allocated by this runtime. done means that the call ends here with code: there is nothing to
// fill, or the arguments are wrong.
func (r *Runtime) filling(t *Thread, devPtr uintptr, max uint64, value int32, n uint64) (f filling, code Code, done bool) {
	f = filling{addr: uint64(devPtr), n: n, value: byte(value)}
	switch {
	case n == 0:
		return f, 0, true
	case devPtr == 0:
		return f, t.Null("aclrtMemset", "devPtr"), true
	case n > max:
		return f, t.Fail(ParamInvalid, "EE1003: aclrtMemset: count %d exceeds maxCount %d", n, max), true
	}
	if f.place = r.placeOf(f.addr, f.n); f.place == pageable {
		return f, t.Fail(ParamInvalid, "EE1003: aclrtMemset: %#x is neither device memory nor host memory of aclrtMallocHost", f.addr), true
	}
	return f, 0, false
}

func (r *Runtime) aclrtMemset(t *Thread, devPtr uintptr, maxCount uint64, value int32, count uint64) Code {
	f, code, done := r.filling(t, devPtr, maxCount, value, count)
	if done {
		return code
	}
	if r.Captures.forbid(t) {
		return t.Fail(CaptureForbids, "EE1016: aclrtMemset: a capture is under way that would not see it")
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	if err := f.run(r, c.device.memory); err != nil {
		return t.Fail(ParamInvalid, "EE1003: %v", err)
	}
	return r.watch(t, "aclrtMemset", f.accesses)
}

func (r *Runtime) aclrtMemsetAsync(t *Thread, devPtr uintptr, maxCount uint64, value int32, count uint64, stream *Stream) Code {
	f, code, done := r.filling(t, devPtr, maxCount, value, count)
	if done {
		return code
	}
	m := stream.Memory()
	return r.Submit(t, stream, Task{Name: "aclrtMemsetAsync", Repeatable: true, Accesses: f.accesses, Planned: &Planned{Copy: "aclrtMemsetAsync", To: placeNames[f.place], Bytes: f.n}, Run: func() error { return f.run(r, m) }})
}
