package nn

import (
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// copyReductions maps the reductions of the copy engine (SDMA) to kernels.
var copyReductions = map[int64]elementwise.Op{
	abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM: elementwise.Add,
	abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX: elementwise.Max,
	abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN: elementwise.Min,
}

var copyReducible = map[dtype.Type]bool{
	dtype.Float32: true, dtype.Float16: true, dtype.BFloat16: true,
	dtype.Int8: true, dtype.Int16: true, dtype.Int32: true,
	dtype.Uint8: true, dtype.Uint16: true, dtype.Uint32: true,
}

// aclrtReduceAsync reduces src into dst, both of count bytes. It belongs to the runtime in C, but
// is here because it computes.
func (l *Library) aclrtReduceAsync(t *rt.Thread, dst, src uintptr, count uint64, kind int32, d dtype.Type, stream rt.Handle, reserve uintptr) rt.Code {
	const (
		function     = "aclrtReduceAsync"
		invalid      = int32(abi.ACL_ERROR_INVALID_PARAM)
		notSupported = int32(abi.ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
	)
	to, from, n := uint64(dst), uint64(src), count
	fn, known := copyReductions[int64(kind)]
	switch {
	case reserve != 0:
		return t.Fail(invalid, "EH0001: %s: reserve must be null", function)
	case !copyReducible[d]:
		return t.Fail(invalid, "EH0001: %s: elements of type %v cannot be reduced; use float32, float16, bfloat16, or an integer of at most 32 bits", function, d)
	case !known:
		return t.Fail(notSupported, "EE1005: %s: kind %d; sum, maximum and minimum are possible", function, kind)
	case n%uint64(d.Size()) != 0:
		return t.Fail(invalid, "EH0001: %s: %d bytes are no whole number of %v elements", function, n, d)
	}
	s, code := l.rt.Stream(t, stream)
	if s == nil {
		return code
	}
	memory := s.Memory()
	view := func(name string, addr uint64) (kernel.View, error) {
		p, err := memory.Resolve(addr, int64(n))
		if err != nil {
			return kernel.View{}, op.Fault("%s: %s: %v", function, name, err)
		}
		return kernel.View{Data: p, DType: d, Shape: []int64{int64(n) / int64(d.Size())}, Strides: []int64{1}}, nil
	}
	return l.rt.Submit(t, s, rt.Task{
		Name: function, Repeatable: true,
		Accesses: func() []sanitize.Access {
			return []sanitize.Access{sanitize.Bytes("src", sanitize.Reads, from, n), sanitize.Bytes("dst", sanitize.Reads, to, n), sanitize.Bytes("dst", sanitize.Writes, to, n)}
		},
		Run: func() error {
			if n == 0 {
				return nil
			}
			out, err := view("dst", to)
			if err != nil {
				return err
			}
			in, err := view("src", from)
			if err != nil {
				return err
			}
			return elementwise.Map(fn, d, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(in)}, elementwise.Whole(1))
		},
	})
}
