package nn

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
)

// touched is a tensor of a call and what the operator is said to do with it.
type touched struct {
	name  string
	touch rt.Touch // the last one
	items [][]byte // its elements, in place
}

// touchedBy lists the tensors of a call whose memory can be looked at.
func touchedBy(c *Call) []touched {
	var all []touched
	for _, t := range c.tensors {
		how := c.touches(t)
		last := how[len(how)-1]
		all = append(all, touched{t.name, last, items(t.access(last))})
	}
	return all
}

// items are the elements of an access in the tests' own memory.
func items(a rt.Access) [][]byte {
	list := []uint64{a.Addr}
	for i, n := range a.Shape {
		var next []uint64
		for _, at := range list {
			for k := range n {
				next = append(next, at+uint64(k*a.Strides[i])*a.Item)
			}
		}
		list = next
	}
	all := make([][]byte, len(list))
	for i, at := range list {
		all[i] = unsafe.Slice((*byte)(rt.Pointer(at)), a.Item)
	}
	return all
}

func (x touched) copy() []byte { return bytes.Join(x.items, nil) }

func (x touched) set(b []byte) {
	for _, item := range x.items {
		b = b[copy(item, b):]
	}
}

// shares reports whether the memory of two tensors overlaps.
func (x touched) shares(o touched) bool {
	span := func(x touched) (lo, hi uintptr) {
		for i, item := range x.items {
			at := uintptr(unsafe.Pointer(unsafe.SliceData(item)))
			if i == 0 {
				lo = at
			}
			lo, hi = min(lo, at), max(hi, at+uintptr(len(item)))
		}
		return lo, hi
	}
	lo, hi := span(x)
	first, last := span(o)
	return lo < last && first < hi
}

// reshaping are words in the names of operators that change the tensor's description too, which
// a second run would find.
var reshaping = []string{"TransMatmulWeight", "Nonzero", "Unique"}

// triable reports whether a call can be tried: it has elements, but not many.
func triable(c *Call) bool {
	return !c.op.named(reshaping) && !slices.ContainsFunc(c.tensors, func(t *Tensor) bool { n := t.Len(); return n == 0 || n > 256 })
}

// verifyTouches tries a call to see that it does with its tensors what the sanitizer believes:
// those that it reads stay as they are, and those that it writes get every byte, whatever was
// there before. Tensors that share memory are left out. Afterwards all is as it was.
func verifyTouches(t testing.TB, trial *executor, run func(*executor) error) {
	t.Helper()
	name := trial.call.op.name
	all := touchedBy(trial.call)
	alone := make([]bool, len(all))
	before := make([][]byte, len(all))
	for i, x := range all {
		alone[i] = !slices.ContainsFunc(slices.Delete(slices.Clone(all), i, i+1), x.shares)
		before[i] = x.copy()
	}
	restore := func() {
		for i, x := range all {
			x.set(before[i])
		}
	}
	defer restore()
	if run(trial) != nil {
		return
	}
	after := make([][]byte, len(all))
	for i, x := range all {
		after[i] = x.copy()
		if alone[i] && (x.touch == rt.Reads || x.touch == rt.ReadsSome) {
			require.True(t, bytes.Equal(before[i], after[i]), "aclnn%s changes %s, which it is said to read", name, x.name)
		}
	}
	restore()
	for i, x := range all {
		if alone[i] && x.touch == rt.Writes && trial.call.op.use(x.name) == written {
			other := bytes.Clone(after[i])
			for k := range other {
				other[k] = ^other[k]
			}
			x.set(other)
		}
	}
	require.NoError(t, run(trial))
	for i, x := range all {
		again := x.copy()
		require.True(t, bytes.Equal(after[i], again), "aclnn%s does not overwrite all of %s: %s", name, x.name, firstDifference(after[i], again))
	}
}

func firstDifference(a, b []byte) string {
	for i := range a {
		if a[i] != b[i] {
			return fmt.Sprintf("byte %d of %d is %#x, was %#x", i, len(a), b[i], a[i])
		}
	}
	return "none"
}
