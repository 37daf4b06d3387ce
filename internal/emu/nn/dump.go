package nn

import (
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// dumped is a Run that shows the call's tensors, as they are after it, to those who asked for
// dumps when it was queued.
func (l *Library) dumped(s *rt.Stream, e *executor) Run {
	if !l.rt.Dumping() {
		return e.run
	}
	return func(x *Exec) error {
		err := e.run(x)
		var tensors []rt.DumpTensor
		for _, t := range e.call.tensors {
			tensors = append(tensors, t.dump(e.call.op.use(t.name) != read))
		}
		if dumpErr := l.rt.Dump(s, e.call.Name(), tensors, err != nil); err == nil && dumpErr != nil {
			return fault("%v: its dump: %v", e.call, dumpErr)
		}
		return err
	}
}

// dump describes the tensor; permuted storage is shown as it lies.
func (t *Tensor) dump(output bool) rt.DumpTensor {
	d := rt.DumpTensor{Name: t.name, Output: output, DType: t.DType, Format: t.Format, Shape: t.Shape, Strides: t.Strides, First: t.host}
	if isPrivate(t.Format) && len(t.Storage) > 0 && t.host != nil {
		d.First = unsafe.Add(t.host, -t.Offset*int64(t.DType.Bits())/8)
		d.Shape, d.Strides = t.Storage, ContiguousStrides(t.Storage)
	}
	return d
}
