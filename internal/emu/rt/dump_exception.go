package rt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

// tensorInfo is C's acldumpTensorInfo.
type tensorInfo struct {
	kind             int32
	size             uint64
	format           int32
	dtype            int32
	addr             uint64
	addrKind         int32
	placement        int32
	_                uint32 // offset among the arguments of a kernel
	dims, originDims uint32
	shape            [abi.ACL_DUMP_MAX_SHAPE_NUM]uint64
	_                [abi.ACL_DUMP_MAX_SHAPE_NUM]uint64 // shape of the origin
}

// exceptionDump is the configuration and the current device, while dumps of exceptions are on.
func (r *Runtime) exceptionDump(t *Thread, function string) (c dumpConfig, d *Device, code uint64) {
	r.dumps.mu.Lock()
	c = r.dumps.config
	r.dumps.mu.Unlock()
	if !c.exceptions() {
		return c, nil, t.Fail(dumpNotRun, "EP0008: %s: dumps of exceptions are off; set dump_scene in the configuration of aclInit or aclmdlSetDump", function)
	}
	x, code := r.current(t)
	if x == nil {
		return c, nil, code
	}
	return c, x.device, 0
}

func (r *Runtime) exceptionPath(t *Thread, a []uint64) uint64 {
	const function = "acldumpGetExceptionInfoPath"
	if a[0] == 0 {
		return t.null(function, "path")
	}
	c, d, code := r.exceptionDump(t, function)
	if d == nil {
		return code
	}
	path := append([]byte(c.exceptionFolder(d.id)), 0)
	if uint64(len(path)) > a[1] {
		return t.Fail(invalidParam, "EH0001: %s: the path has %d bytes with its NUL, there is room for %d", function, len(path), a[1])
	}
	for i, b := range path {
		Write(a[0]+uint64(i), b)
	}
	return 0
}

// saveException writes tensors that the program chose into a file beside the dumps of exceptions.
func (r *Runtime) saveException(t *Thread, a []uint64) uint64 {
	const function = "acldumpSaveExceptionInfo"
	if a[0] == 0 || a[2] == 0 {
		return t.null(function, "fileName or tensors")
	}
	name := CString(a[0])
	if name == "" || slices.Contains(strings.Split(name, "/"), "..") || a[3] == 0 {
		return t.Fail(invalidParam, "EH0001: %s: fileName is %q, tensorCount %d; use a name without \"..\" and one tensor or more", function, name, a[3])
	}
	c, d, code := r.exceptionDump(t, function)
	if d == nil {
		return code
	}
	m := d.opened()
	if m == nil {
		return t.Fail(paramInvalid, "EE1003: %s: device %d was reset", function, d.id)
	}
	var tensors []DumpTensor
	for i, x := range Read[tensorInfo](a[2], a[3]) {
		tensor, refusal := x.tensor(m)
		if refusal != "" {
			return t.Fail(invalidParam, "EH0001: %s: tensor %d: %s", function, i, refusal)
		}
		tensor.Name = fmt.Sprint(i)
		tensors = append(tensors, tensor)
	}
	var metadata map[string]string
	if a[1] != 0 {
		metadata = map[string]string{"userTag": CString(a[1])}
	}
	now := time.Now()
	stamp := fmt.Sprintf("%s%03d", now.Format("20060102150405"), now.Nanosecond()/1e6)
	if err := writeDump(filepath.Join(c.exceptionFolder(d.id), name+".custom."+stamp), tensors, metadata); err != nil {
		return t.Fail(internalError, "EH9999: %s: %v", function, err)
	}
	return 0
}

// tensor checks a description and finds its data.
func (x *tensorInfo) tensor(m *Memory) (t DumpTensor, refusal string) {
	switch {
	case x.addr == 0 || x.size == 0:
		return t, "its address is null or its size 0"
	case x.dims > abi.ACL_DUMP_MAX_SHAPE_NUM || x.originDims > abi.ACL_DUMP_MAX_SHAPE_NUM:
		return t, fmt.Sprintf("it has %d dimensions and %d of the origin; %d are possible", x.dims, x.originDims, abi.ACL_DUMP_MAX_SHAPE_NUM)
	case int64(x.addrKind) != abi.ACL_DUMP_ADDR_RAW || int64(x.placement) != abi.ACL_DUMP_PLACEMENT_DEVICE:
		return t, "use ACL_DUMP_ADDR_RAW and ACL_DUMP_PLACEMENT_DEVICE"
	}
	p, err := m.Resolve(x.addr, int64(x.size))
	if err != nil {
		return t, err.Error()
	}
	t = DumpTensor{
		Output: int64(x.kind) == abi.ACL_DUMP_TENSOR_OUTPUT, DType: dtype.Type(x.dtype), Format: dtype.Format(x.format), First: p,
	}
	room, n, stride := uint64(0), uint64(1), int64(1)
	if bits := uint64(t.DType.Bits()); bits > 0 {
		room = 8 * x.size / bits
	}
	for _, d := range x.shape[:x.dims] {
		t.Shape = append(t.Shape, int64(d))
		if d > 0 && n > room/d {
			room = 0
			break
		}
		n *= d
	}
	if n > room { // type and shape do not tell what lies there
		return DumpTensor{Output: t.Output, DType: dtype.Uint8, Format: t.Format, First: p, Shape: []int64{int64(x.size)}, Strides: []int64{1}}, ""
	}
	t.Strides = make([]int64, len(t.Shape))
	for i := len(t.Shape) - 1; i >= 0; i-- {
		t.Strides[i] = stride
		stride *= t.Shape[i]
	}
	return t, ""
}
