package optest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// touched is a tensor of a call together with the accesses that the operator is assumed to make.
type touched struct {
	name  string
	touch sanitize.Touch // the last of these accesses
	items [][]byte       // its elements, as slices of its memory
}

// touchedBy returns the tensors of a call whose memory can be inspected.
func touchedBy(c *op.Call) []touched {
	var all []touched
	for _, t := range c.AllTensors() {
		how := c.Touches(t)
		last := how[len(how)-1]
		all = append(all, touched{t.Name, last, items(t.Access(last))})
	}
	return all
}

// items returns the elements of an access as slices of the tests' own memory.
func items(a sanitize.Access) [][]byte {
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

// shares reports whether the memory ranges of two tensors overlap.
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

// reshaping lists the operators that also change the description of a tensor, so that they cannot
// run twice on it.
var reshaping = []string{"TransMatmulWeight", "Nonzero", "NonzeroV2", "Unique", "Unique2", "UniqueConsecutive", "UniqueDim"}

// triable reports whether verifyTouches can run a call: its tensors are not empty and have at most
// 256 elements.
func triable(c *op.Call) bool {
	return !slices.Contains(reshaping, c.Op.Name) && !slices.ContainsFunc(c.AllTensors(), func(t *op.Tensor) bool { n := t.Len(); return n == 0 || n > 256 })
}

// verifyTouches runs a call to verify the accesses that the sanitizer assumes: tensors that are
// only read keep their values, and every byte of a written tensor is set, whatever was there
// before. It ignores tensors that share memory and restores all memory afterwards.
func verifyTouches(t testing.TB, trial *op.Executor, run func(*op.Executor) error) {
	t.Helper()
	name := trial.Call.Op.Name
	all := touchedBy(trial.Call)
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
		if alone[i] && (x.touch == sanitize.Reads || x.touch == sanitize.ReadsSome) {
			require.True(t, bytes.Equal(before[i], after[i]), "aclnn%s changes %s, which the table has as read", name, x.name)
		}
	}
	restore()
	for i, x := range all {
		if alone[i] && x.touch == sanitize.Writes && trial.Call.Op.Use(x.name) == op.Written {
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
