package acl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn/half"
)

func TestCopyOfEveryElementType(t *testing.T) {
	st := openStream(t)
	for _, n := range []int{0, 1, 3, 1000} {
		roundTrip(t, st, n, func(i int) bool { return i%3 == 0 })
		roundTrip(t, st, n, func(i int) int8 { return int8(-i) })
		roundTrip(t, st, n, func(i int) uint8 { return uint8(i) })
		roundTrip(t, st, n, func(i int) int16 { return int16(-i) })
		roundTrip(t, st, n, func(i int) uint16 { return uint16(i) })
		roundTrip(t, st, n, func(i int) int32 { return int32(-i) })
		roundTrip(t, st, n, func(i int) uint32 { return uint32(i) })
		roundTrip(t, st, n, func(i int) int64 { return int64(-i) })
		roundTrip(t, st, n, func(i int) uint64 { return uint64(i) })
		roundTrip(t, st, n, func(i int) float32 { return float32(i) / 3 })
		roundTrip(t, st, n, func(i int) float64 { return float64(i) / 3 })
		roundTrip(t, st, n, func(i int) complex64 { return complex(float32(i), 1) })
		roundTrip(t, st, n, func(i int) complex128 { return complex(float64(i), 1) })
		roundTrip(t, st, n, func(i int) half.Float16 { return half.Float16FromFloat32(float32(i)) })
		roundTrip(t, st, n, func(i int) half.BFloat16 { return half.BFloat16FromFloat32(float32(i)) })
	}
}

func roundTrip[T acl.Element](t *testing.T, st *acl.Stream, n int, value func(int) T) {
	t.Helper()
	src, want, got := make([]T, n), make([]T, n), make([]T, n)
	for i := range src {
		src[i] = value(i)
	}
	copy(want, src)
	buf := malloc(t, st, max(1, 16*n))
	require.NoError(t, acl.CopyToDevice(background, st, buf, src))
	clear(src) // the call has taken what it needs
	require.NoError(t, acl.CopyFromDevice(background, st, got, buf))
	require.Equal(t, want, got)
}

// TestCopyOfAnySize crosses the sizes of the staging slots.
func TestCopyOfAnySize(t *testing.T) {
	st := openStream(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 4 << 20, 4<<20 + 1, 20<<20 + 7} {
		src, got := make([]byte, n), make([]byte, n)
		for i := range src {
			src[i] = byte(random.Uint32())
		}
		buf := malloc(t, st, n)
		require.NoError(t, acl.CopyToDevice(background, st, buf, src))
		require.NoError(t, acl.CopyFromDevice(background, st, got, buf))
		require.True(t, string(src) == string(got), "%d bytes", n)
	}
}

// TestCopyWaitsForStaging: more copies than there is staging memory wait, and a context ends
// that wait.
func TestCopyWaitsForStaging(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	buf := malloc(t, dev, 8<<20)
	data := make([]byte, 8<<20)
	release := hold(t, st)
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	var err error
	for range 4 {
		if err = acl.CopyToDevice(ctx, st, buf, data); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	requireError(t, err, acl.ErrTimeout, 0)
	require.ErrorIs(t, acl.CopyFromDevice(ctx, st, data, buf), context.DeadlineExceeded)
	release()
	require.NoError(t, acl.CopyToDevice(background, st, buf, data))
	require.NoError(t, acl.CopyFromDevice(background, st, data, buf))
}

func TestPinnedCopy(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	in, out := hostBuffer(t, dev, 40), hostBuffer(t, dev, 40)
	a, b := malloc(t, st, 40), malloc(t, st, 40)
	for i := range acl.Slice[int64](in) {
		acl.Slice[int64](in)[i] = int64(i)
	}
	require.NoError(t, st.Copy(a, in, 40))
	require.NoError(t, st.Copy(b, a, 40))
	require.NoError(t, st.Copy(out, b, 40))
	require.NoError(t, st.Synchronize(background))
	assert.Equal(t, []int64{0, 1, 2, 3, 4}, acl.Slice[int64](out))

	part, err := in.View(8, 16)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, acl.Slice[int64](part))
	require.NoError(t, part.Close(), "closing a view does nothing")
	target, err := a.View(24, 16)
	require.NoError(t, err)
	require.NoError(t, st.Copy(target, part, 16))
	got := make([]int64, 5)
	require.NoError(t, acl.CopyFromDevice(background, st, got, a))
	assert.Equal(t, []int64{0, 1, 2, 1, 2}, got)
}

func TestImmediateCopy(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	in, out, third := hostBuffer(t, dev, 8), hostBuffer(t, dev, 8), hostBuffer(t, dev, 8)
	buf, other := malloc(t, dev, 8), malloc(t, dev, 8)
	copy(in.Bytes(), "ascend!!")
	require.NoError(t, dev.Copy(background, buf, in, 8))
	require.NoError(t, dev.Copy(background, other, buf, 8))
	require.NoError(t, dev.Memset(background, other, '?', 3))
	require.NoError(t, dev.Copy(background, out, other, 8))
	require.NoError(t, dev.Copy(background, third, out, 8))
	assert.Equal(t, "???end!!", string(third.Bytes()))
	require.NoError(t, dev.Copy(background, out, other, 0))
	require.NoError(t, dev.Memset(background, buf, 0, 0))
}

func TestCopy2D(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	in, out := hostBuffer(t, dev, 12), hostBuffer(t, dev, 12)
	copy(in.Bytes(), "abcdefghijkl")
	copy(out.Bytes(), "............")
	buf := malloc(t, dev, 7)
	require.NoError(t, st.Copy2D(buf, 2, in, 4, 2, 3)) // ab ef ij
	require.NoError(t, st.Copy2D(out, 5, buf, 2, 2, 3))
	require.NoError(t, st.Synchronize(background))
	assert.Equal(t, "ab...ef...ij", string(out.Bytes()))
	require.NoError(t, dev.Copy2D(background, out, 6, buf, 2, 1, 2))
	assert.Equal(t, "ab...ee...ij", string(out.Bytes()))
	require.NoError(t, st.Copy2D(buf, 2, in, 4, 0, 3))
	require.NoError(t, dev.Copy2D(background, buf, 2, in, 4, 2, 0))
	now := func(dst acl.Memory, dpitch int, src acl.Memory, spitch, width, height int) error {
		return dev.Copy2D(background, dst, dpitch, src, spitch, width, height)
	}
	for _, copy := range []func(acl.Memory, int, acl.Memory, int, int, int) error{st.Copy2D, now} {
		for _, err := range []error{
			copy(buf, 2, in, 4, 2, 4),  // source too small
			copy(buf, 3, in, 4, 3, 3),  // target too small
			copy(buf, 1, in, 4, 2, 1),  // rows overlap
			copy(buf, 2, in, 1, 2, 1),  // rows overlap
			copy(buf, 2, in, 4, -1, 1), // negative
			copy(buf, 2, in, 4, 1, -1),
			copy(buf, 1<<50, in, 1<<50, 1, 2),
			copy(buf, 2, in, 4, 1, 1<<50),
			copy(nil, 2, in, 4, 1, 1),
		} {
			requireError(t, err, acl.ErrInvalidArgument, 0)
		}
		requireError(t, copy(out, 4, in, 4, 2, 2), acl.ErrNotSupported, 0)
	}
}

func TestMemset(t *testing.T) {
	st := openStream(t)
	buf := malloc(t, st, 5)
	require.NoError(t, st.Memset(buf, 0xAB, 5))
	require.NoError(t, st.Memset(buf, 1, 2))
	require.NoError(t, st.Memset(buf, 2, 0))
	got := make([]byte, 5)
	require.NoError(t, acl.CopyFromDevice(background, st, got, buf))
	assert.Equal(t, []byte{1, 1, 0xAB, 0xAB, 0xAB}, got)
}

// TestMallocTooMuch: a size that no device has is refused without asking CANN, and the hint says
// where to look.
func TestMallocTooMuch(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	_, err := dev.Malloc(1 << 50)
	requireError(t, err, acl.ErrInvalidArgument, 0)
	require.ErrorContains(t, err, "Device.MemInfo")
	_, err = dev.Malloc(0)
	require.ErrorContains(t, err, "a buffer of 0 bytes is not possible")
	require.ErrorContains(t, err, "CANN was not asked")
}

func TestMemoryMisuse(t *testing.T) {
	rt := acltest.Open(t)
	dev := acltest.Device(t, rt, 0)
	st := acltest.Stream(t, dev)
	buf, host := malloc(t, dev, 8), hostBuffer(t, dev, 8)
	far := malloc(t, acltest.Device(t, rt, 1), 8)
	closed, err := st.Malloc(8)
	require.NoError(t, err)
	view, err := closed.View(2, 4)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	gone, err := dev.MallocHost(8)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	require.NoError(t, gone.Close())
	assert.Nil(t, gone.Bytes())
	assert.Nil(t, acl.Slice[int32](gone))

	nine := make([]byte, 9)
	var none *acl.Buffer
	for _, c := range []struct {
		name  string
		err   error
		group error
	}{
		{"too long to the device", acl.CopyToDevice(background, st, buf, nine), acl.ErrInvalidArgument},
		{"too long from the device", acl.CopyFromDevice(background, st, nine, buf), acl.ErrInvalidArgument},
		{"copy too long", st.Copy(buf, host, 9), acl.ErrInvalidArgument},
		{"copy of negative size", st.Copy(buf, host, -1), acl.ErrInvalidArgument},
		{"copy of nil", st.Copy(buf, nil, 1), acl.ErrInvalidArgument},
		{"copy of a nil buffer", st.Copy(none, host, 1), acl.ErrInvalidArgument},
		{"host to host", st.Copy(host, host, 1), acl.ErrNotSupported},
		{"memset too long", st.Memset(buf, 0, 9), acl.ErrInvalidArgument},
		{"negative memset", st.Memset(buf, 0, -1), acl.ErrInvalidArgument},
		{"memset of nil", st.Memset(none, 0, 1), acl.ErrInvalidArgument},
		{"now too long", dev.Copy(background, buf, host, 9), acl.ErrInvalidArgument},
		{"now negative", dev.Copy(background, buf, host, -1), acl.ErrInvalidArgument},
		{"now nil", dev.Copy(background, nil, host, 1), acl.ErrInvalidArgument},
		{"memset now too long", dev.Memset(background, buf, 0, 9), acl.ErrInvalidArgument},
		{"memset now negative", dev.Memset(background, buf, 0, -9), acl.ErrInvalidArgument},
		{"closed", st.Memset(closed, 0, 1), acl.ErrClosed},
		{"view of closed", st.Memset(view, 0, 1), acl.ErrClosed},
		{"closed host", st.Copy(buf, gone, 1), acl.ErrClosed},
		{"closed, recorded", closed.RecordStream(st), acl.ErrClosed},
		{"nil, recorded", none.RecordStream(st), acl.ErrInvalidArgument},
		{"far", st.Memset(far, 0, 1), acl.ErrWrongDevice},
		{"far, recorded", far.RecordStream(st), acl.ErrWrongDevice},
		{"far, now", dev.Memset(background, far, 0, 1), acl.ErrWrongDevice},
		{"far copy", acl.CopyToDevice(background, st, far, nine[:1]), acl.ErrWrongDevice},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := requireError(t, c.err, c.group, 0)
			assert.NotEmpty(t, e.Message)
			assert.NotEmpty(t, e.Hint)
			assert.Zero(t, e.Device)
		})
	}
	for _, r := range [][2]int{{-1, 1}, {0, -1}, {0, 9}, {9, 0}, {8, 1}, {1 << 62, 1 << 62}} {
		_, err := buf.View(r[0], r[1])
		requireError(t, err, acl.ErrInvalidArgument, 0)
		_, err = host.View(r[0], r[1])
		requireError(t, err, acl.ErrInvalidArgument, 0)
	}
	empty, err := buf.View(8, 0)
	require.NoError(t, err)
	assert.Zero(t, empty.Size())
	for _, n := range []int{0, -1} {
		for _, malloc := range []func(int) error{
			func(n int) error { _, err := dev.Malloc(n); return err },
			func(n int) error { _, err := st.Malloc(n); return err },
			func(n int) error { _, err := dev.MallocHost(n); return err },
			func(n int) error { _, err := dev.MallocManaged(n); return err },
			func(n int) error { _, err := dev.MallocDirect(n, acl.HugeFirst); return err },
			func(n int) error { _, err := st.NewArena(n); return err },
		} {
			requireError(t, malloc(n), acl.ErrInvalidArgument, 0)
		}
	}
	_, err = dev.MallocHost(1 << 60)
	requireError(t, err, acl.ErrOutOfMemory, 207001)
	require.ErrorContains(t, err, "the host has not that much page-locked memory")
	require.NotContains(t, err.Error(), "the device is out of memory")
	_, err = buf.Bytes()
	requireError(t, err, acl.ErrNotSupported, 0)
	_, err = closed.Bytes()
	requireError(t, err, acl.ErrClosed, 0)
}

func TestMallocDirect(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	before := dev.Allocator().Stats()
	for _, p := range []acl.Policy{acl.HugeFirst, acl.HugeOnly, acl.NormalOnly, acl.HugeFirstP2P, acl.NormalOnlyP2P} {
		buf, err := dev.MallocDirect(3<<20, p)
		require.NoError(t, err, "policy %d", p)
		release := hold(t, st)
		require.NoError(t, st.Memset(buf, 1, buf.Size()))
		closed := make(chan error)
		go func() { closed <- buf.Close() }() // waits for the stream
		release()
		require.NoError(t, <-closed)
	}
	assert.Equal(t, before, dev.Allocator().Stats())
	_, err := dev.MallocDirect(1<<45, acl.HugeFirst)
	requireError(t, err, acl.ErrOutOfMemory, 207001)
}

func TestManagedMemory(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	buf, err := dev.MallocManaged(4 << 20)
	if err != nil {
		require.ErrorIs(t, err, acl.ErrNotSupported)
		t.Skip("managed memory: ", err)
	}
	defer func() { require.NoError(t, buf.Close()) }()
	require.NoError(t, st.Memset(buf, 7, buf.Size()))
	require.NoError(t, st.Synchronize(background))
	b, err := buf.Bytes()
	require.NoError(t, err)
	assert.EqualValues(t, 7, b[len(b)-1])
}

// TestSlotsOfClosingContext: a copy waits for a slot of page-locked memory that work of another context uses, while that
// context is closed.
func TestSlotsOfClosingContext(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	b := malloc(t, dev, 64)
	value := make([]byte, 64)
	for round := range 200 {
		x, err := dev.NewContext()
		require.NoError(t, err)
		other, err := x.NewStream()
		require.NoError(t, err)
		release := hold(t, other)
		for range 32 { // all slots for short copies
			require.NoError(t, acl.CopyToDevice(background, other, b, value))
		}
		ctx, waiting := background, make(chan struct{})
		if round%2 == 0 { // the copy asks at intervals, and its second question may come after the end of the context
			ctx = &asked{Context: t.Context(), f: func() { close(waiting) }}
		} else {
			close(waiting)
		}
		copied, closed := make(chan error), make(chan error)
		go func() { copied <- acl.CopyToDevice(ctx, st, b, value) }()
		go func() { closed <- errors.Join(other.Close(), x.Close()) }()
		<-waiting
		release()
		require.NoError(t, <-closed)
		require.NoError(t, <-copied)
	}
}
