package op

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// hostMemory is Memory whose addresses are those of the process.
type hostMemory struct{}

func (hostMemory) Resolve(addr uint64, _ int64) (unsafe.Pointer, error) {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr)), nil
}

// reversal sets out to self in reverse order. It is right only if they share no memory.
func reversal(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	return func(*Exec) error {
		n := self.Len()
		from, to := unsafe.Slice((*float32)(self.Data), n), unsafe.Slice((*float32)(out.Data), n)
		for i := range from {
			to[n-1-int64(i)] = from[i]
		}
		return nil
	}, nil
}

// Whether an output overlaps an input depends on the addresses, so it is settled in each call.
func TestRebindSettlesOverlap(t *testing.T) {
	memory := func(values ...float64) kernel.View {
		return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{int64(len(values))}, values)
	}
	first, second := memory(1, 2, 3, 0, 0, 0), memory(1, 2, 3, 0)
	at := func(v kernel.View, i int64) *Tensor {
		x := tensorOf(dtype.Float32, 3)
		x.Addr = uint64(uintptr(v.Data) + uintptr(4*i))
		return x
	}
	e, err := NewExecutor(reversal, NewCall(Find("Abs"), []any{at(first, 0), at(first, 3)}, Env{}))
	require.NoError(t, err)
	require.False(t, e.Call.Once())
	require.NoError(t, e.Execute(hostMemory{}, 0, e.Run))
	assert.Equal(t, []float64{1, 2, 3, 3, 2, 1}, kerneltest.Values(first))

	require.NoError(t, e.Rebind([]any{at(second, 0), at(second, 1)}))
	require.NoError(t, e.Execute(hostMemory{}, 0, e.Run))
	assert.Equal(t, []float64{1, 3, 2, 1}, kerneltest.Values(second))

	require.NoError(t, e.Rebind([]any{at(first, 3), at(first, 0)}))
	require.NoError(t, e.Execute(hostMemory{}, 0, e.Run))
	assert.Equal(t, []float64{1, 2, 3, 3, 2, 1}, kerneltest.Values(first))
}

// Lists that are computed in place need no copy unless members share memory.
func TestMembersHandleOverlap(t *testing.T) {
	twice := func(c *Call) (Run, error) {
		x, out := c.Tensors("x"), c.Tensors("out")
		c.HandlesOverlapOfMembers(x, out)
		return func(*Exec) error {
			for i := range x {
				if err := elementwise.Map(elementwise.Add, dtype.Float32, out[i].View(), []elementwise.Input{elementwise.Of(x[i].View()), elementwise.Of(x[i].View())}, elementwise.Real(1)); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
	for name, c := range map[string]struct {
		in, out [2]int64 // where the members start
		copies  int
		want    []float64
	}{
		"in place":         {[2]int64{0, 3}, [2]int64{0, 3}, 0, []float64{2, 4, 6, 8, 10, 12}},
		"within a member":  {[2]int64{0, 4}, [2]int64{1, 4}, 0, []float64{1, 2, 4, 6, 10, 12}},
		"the same twice":   {[2]int64{0, 0}, [2]int64{0, 0}, 2, []float64{2, 4, 6, 4, 5, 6}},
		"another's result": {[2]int64{0, 3}, [2]int64{3, 0}, 2, []float64{8, 10, 12, 2, 4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			v := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{7}, []float64{1, 2, 3, 4, 5, 6, 0})
			list := func(at [2]int64) (list []*Tensor) {
				for _, i := range at {
					x := tensorOf(dtype.Float32, 3)
					x.Addr = uint64(uintptr(v.Data) + uintptr(4*i))
					list = append(list, x)
				}
				return list
			}
			e, err := NewExecutor(twice, NewCall(Find("ForeachAbs"), []any{list(c.in), list(c.out)}, Env{}))
			require.NoError(t, err)
			assert.Len(t, e.overlapped, c.copies)
			require.NoError(t, e.Execute(hostMemory{}, 0, e.Run))
			assert.Equal(t, c.want, kerneltest.Values(v)[:6])
		})
	}
}
