package rt

import (
	"fmt"

	"github.com/goascend/cann/internal/abi"
)

func (r *Runtime) copyFunctions() table {
	return table{
		"aclrtMemcpy":                   r.memcpy,
		"aclrtMemcpyAsync":              r.memcpyAsync,
		"aclrtMemcpyAsyncWithCondition": r.memcpyAsync,
		"aclrtMemcpy2d":                 r.memcpy2d,
		"aclrtMemcpy2dAsync":            r.memcpy2dAsync,
		"aclrtMemset":                   r.memset,
		"aclrtMemsetAsync":              r.memsetAsync,
	}
}

// place is where an address lies.
type place uint8

const (
	pageable place = iota
	pinned
	device
	everywhere // managed memory
)

// onDevice reports whether a device reaches the place by its own address.
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

// extent is the number of bytes from the first to the last one touched.
func extent(pitch, width, height uint64) uint64 { return pitch*(height-1) + width }

// check refuses what cannot be copied: null pointers, and a kind that contradicts where the
// addresses lie, as when device memory is passed for host memory.
func (x *transfer) check(r *Runtime, t *Thread) uint64 {
	if x.dst == 0 || x.src == 0 {
		return t.null(x.function, "dst or src")
	}
	x.dstPlace = r.placeOf(x.dst, extent(x.dstPitch, x.width, x.height))
	x.srcPlace = r.placeOf(x.src, extent(x.srcPitch, x.width, x.height))
	toDevice, fromDevice := x.dstPlace.onDevice(), x.srcPlace.onDevice()
	var wantTo, wantFrom bool
	switch int64(x.kind) {
	case abi.ACL_MEMCPY_HOST_TO_HOST:
	case abi.ACL_MEMCPY_HOST_TO_DEVICE, abi.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
		wantTo = true
	case abi.ACL_MEMCPY_DEVICE_TO_HOST:
		wantFrom = true
	case abi.ACL_MEMCPY_DEVICE_TO_DEVICE, abi.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, abi.ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
		wantTo, wantFrom = true, true
	default:
		return 0 // the direction follows from the addresses
	}
	if toDevice != wantTo && x.dstPlace != everywhere || fromDevice != wantFrom && x.srcPlace != everywhere {
		return t.Fail(paramInvalid, "EE1003: %s: kind %d does not fit: dst %#x is %s memory, src %#x is %s memory",
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

// bytes finds the host memory behind an address: device memory as c's device sees it, host
// memory as it is.
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

// run copies, seen from the device whose memory is m.
func (x *transfer) run(r *Runtime, m *Memory) error {
	dst, err := r.bytes(m, x.dst, extent(x.dstPitch, x.width, x.height), x.dstPlace)
	if err != nil {
		return fmt.Errorf("%s: dst: %w", x.function, err)
	}
	src, err := r.bytes(m, x.src, extent(x.srcPitch, x.width, x.height), x.srcPlace)
	if err != nil {
		return fmt.Errorf("%s: src: %w", x.function, err)
	}
	for row := range x.height {
		copy(dst[row*x.dstPitch:][:x.width], src[row*x.srcPitch:][:x.width])
	}
	return nil
}

// accesses are what the copy touches of device memory.
func (x *transfer) accesses() []Access {
	view := func(name string, touch Touch, addr, pitch uint64) Access {
		return Access{Name: name, Touch: touch, Addr: addr, Item: 1, Shape: []int64{int64(x.height), int64(x.width)}, Strides: []int64{int64(pitch), 1}}
	}
	src, dst := view("src", Reads, x.src, x.srcPitch), view("dst", Writes, x.dst, x.dstPitch)
	switch {
	case !x.srcPlace.onDevice():
		return []Access{dst}
	case !x.dstPlace.onDevice():
		return []Access{src}
	}
	src.Touch, dst.from, dst.fromPitch = Keeps, x.src, x.srcPitch
	return []Access{src, dst}
}

// linear reads the arguments dst, destMax, src, count, kind. done says that there is
// nothing to copy, or why it cannot be.
func linear(t *Thread, function string, a []uint64) (x transfer, code uint64, done bool) {
	dst, room, src, count, kind := a[0], a[1], a[2], a[3], int32(a[4])
	switch {
	case count == 0:
		return x, 0, true
	case dst == 0 || src == 0:
		return x, t.null(function, "dst or src"), true
	case room < count:
		return x, t.Fail(paramInvalid, "EE1003: %s: destMax %d is less than count %d", function, room, count), true
	case dst == src:
		return x, 0, true
	}
	return transfer{function: function, dst: dst, src: src, dstPitch: count, srcPitch: count, width: count, height: 1, kind: kind}, 0, false
}

// memcpy copies at once and waits for no stream.
func (r *Runtime) memcpy(t *Thread, a []uint64) uint64 {
	if kind := int32(a[4]); kind < 0 || kind > int32(abi.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
		return t.Fail(invalidParam, "EH0001: aclrtMemcpy: kind %d; 0 to 5 are possible", kind)
	}
	x, code, done := linear(t, "aclrtMemcpy", a)
	if done {
		return code
	}
	return r.now(t, &x)
}

// now checks a transfer and runs it on the calling thread.
func (r *Runtime) now(t *Thread, x *transfer) uint64 {
	if r.captures.forbid(t) {
		return t.Fail(captureForbids, "EE1016: %s: a capture is under way that would not see the copy", x.function)
	}
	if code := x.check(r, t); code != 0 {
		return code
	}
	var m *Memory
	if x.dstPlace.onDevice() || x.srcPlace.onDevice() {
		c, code := r.current(t)
		if c == nil {
			return code
		}
		m = c.device.memory
	}
	if err := x.run(r, m); err != nil {
		return t.Fail(paramInvalid, "EE1003: %v", err)
	}
	return r.watch(t, x.function, x.accesses)
}

func (r *Runtime) memcpyAsync(t *Thread, a []uint64) uint64 {
	x, code, done := linear(t, "aclrtMemcpyAsync", a)
	if done {
		return code
	}
	return r.later(t, &x, a[5])
}

// later queues a transfer. With pageable host memory it waits for the stream and copies
// before it returns, since the caller may change the memory afterwards.
func (r *Runtime) later(t *Thread, x *transfer, stream uint64) uint64 {
	s, code := r.Stream(t, stream)
	if s == nil {
		return uint64(uint32(code))
	}
	if code := x.check(r, t); code != 0 {
		return code
	}
	if !x.dstPlace.onDevice() && !x.srcPlace.onDevice() {
		return t.Fail(featureNotSupported, "EE1005: %s: host to host cannot be asynchronous; use aclrtMemcpy", x.function)
	}
	if x.dstPlace == pageable || x.srcPlace == pageable {
		switch {
		case s.capture.Load() != nil:
			return t.Fail(paramInvalid, "EE1016: %s: host memory that is not pinned cannot be captured", x.function)
		case r.captures.forbid(t):
			return t.Fail(captureBlocksAsync, "EE1016: %s: host memory that is not pinned makes the copy wait, which a capture forbids", x.function)
		}
		if f := s.synchronize(wait{}); f != nil {
			return f.report(t)
		}
		if err := x.run(r, s.Memory()); err != nil {
			return t.Fail(paramInvalid, "EE1003: %v", err)
		}
		return r.watch(t, x.function, x.accesses)
	}
	m := s.Memory()
	copied := *x
	return r.Submit(t, s, Task{Name: x.function, Repeatable: true, Accesses: copied.accesses, Run: func() error { return copied.run(r, m) }})
}

// The largest asynchronous 2-D copy.
const maxAsyncWidth, maxAsyncHeight = 5_000_000, 5_242_880

// planar reads the arguments dst, dpitch, src, spitch, width, height, kind.
func planar(t *Thread, function string, a []uint64) (x transfer, code uint64, done bool) {
	x = transfer{function: function, dst: a[0], dstPitch: a[1], src: a[2], srcPitch: a[3], width: a[4], height: a[5], kind: int32(a[6])}
	switch {
	case x.width == 0 || x.height == 0:
		return x, 0, true
	case x.dst == 0 || x.src == 0:
		return x, t.null(function, "dst or src"), true
	case x.width > x.dstPitch || x.width > x.srcPitch:
		return x, t.Fail(paramInvalid, "EE1003: %s: width %d exceeds pitch %d or %d", function, x.width, x.dstPitch, x.srcPitch), true
	case x.kind < int32(abi.ACL_MEMCPY_HOST_TO_DEVICE) || x.kind > int32(abi.ACL_MEMCPY_DEFAULT):
		return x, t.Fail(paramInvalid, "EE1003: %s: kind %d; use host to device, device to host, device to device or default", function, x.kind), true
	}
	return x, 0, false
}

func (r *Runtime) memcpy2d(t *Thread, a []uint64) uint64 {
	x, code, done := planar(t, "aclrtMemcpy2d", a)
	if done {
		return code
	}
	return r.now(t, &x)
}

func (r *Runtime) memcpy2dAsync(t *Thread, a []uint64) uint64 {
	x, code, done := planar(t, "aclrtMemcpy2dAsync", a)
	if done {
		return code
	}
	if x.width > maxAsyncWidth || x.height > maxAsyncHeight {
		return t.Fail(paramInvalid, "EE1003: aclrtMemcpy2dAsync: %d x %d is more than %d x %d", x.width, x.height, maxAsyncWidth, maxAsyncHeight)
	}
	return r.later(t, &x, a[7])
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

func (f filling) accesses() []Access { return []Access{Bytes("devPtr", Writes, f.addr, f.n)} }

// fill reads the arguments of a memset. Host memory must be of this runtime.
func (r *Runtime) fill(t *Thread, a []uint64) (f filling, code uint64, done bool) {
	f = filling{addr: a[0], n: a[3], value: byte(a[2])}
	switch {
	case f.n == 0:
		return f, 0, true
	case f.addr == 0:
		return f, t.null("aclrtMemset", "devPtr"), true
	case f.n > a[1]:
		return f, t.Fail(paramInvalid, "EE1003: aclrtMemset: count %d exceeds maxCount %d", f.n, a[1]), true
	}
	if f.place = r.placeOf(f.addr, f.n); f.place == pageable {
		return f, t.Fail(paramInvalid, "EE1003: aclrtMemset: %#x is neither device memory nor host memory of aclrtMallocHost", f.addr), true
	}
	return f, 0, false
}

func (r *Runtime) memset(t *Thread, a []uint64) uint64 {
	f, code, done := r.fill(t, a)
	if done {
		return code
	}
	if r.captures.forbid(t) {
		return t.Fail(captureForbids, "EE1016: aclrtMemset: a capture is under way that would not see it")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	if err := f.run(r, c.device.memory); err != nil {
		return t.Fail(paramInvalid, "EE1003: %v", err)
	}
	return r.watch(t, "aclrtMemset", f.accesses)
}

func (r *Runtime) memsetAsync(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[4])
	if s == nil {
		return uint64(uint32(code))
	}
	f, fillCode, done := r.fill(t, a)
	if done {
		return fillCode
	}
	m := s.Memory()
	return r.Submit(t, s, Task{Name: "aclrtMemsetAsync", Repeatable: true, Accesses: f.accesses, Run: func() error { return f.run(r, m) }})
}
