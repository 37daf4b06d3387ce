package dump

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
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
	_                [abi.ACL_DUMP_MAX_SHAPE_NUM]uint64 // original shape
}

// exceptionDump returns the configuration and the current device, or a code when dumps of
// exceptions are off.
func (r *Runtime) exceptionDump(t *rt.Thread, function string) (c config, d *rt.Device, code rt.Code) {
	r.dumps.mu.Lock()
	c = r.dumps.config
	r.dumps.mu.Unlock()
	if !c.exceptions() {
		return c, nil, t.Fail(NotRun, "EP0008: %s: dumps of exceptions are off; set dump_scene in the configuration of aclInit or aclmdlSetDump", function)
	}
	x, code := r.Current(t)
	if x == nil {
		return c, nil, code
	}
	return c, x.Device(), 0
}

func (r *Runtime) acldumpGetExceptionInfoPath(t *rt.Thread, path rt.Out[byte], maxLen uint64) rt.Code {
	const function = "acldumpGetExceptionInfoPath"
	c, d, code := r.exceptionDump(t, function)
	if d == nil {
		return code
	}
	folder := append([]byte(c.exceptionFolder(d.ID())), 0)
	if uint64(len(folder)) > maxLen {
		return t.Fail(rt.InvalidParam, "EH0001: %s: the path has %d bytes with its NUL, there is room for %d", function, len(folder), maxLen)
	}
	path.Fill(folder)
	return 0
}

// acldumpSaveExceptionInfo writes the tensors that the program passes into a file in the folder of
// exception dumps.
func (r *Runtime) acldumpSaveExceptionInfo(t *rt.Thread, fileName string, userTag *string, tensors rt.In[tensorInfo], tensorCount uint64) rt.Code {
	const function = "acldumpSaveExceptionInfo"
	if fileName == "" || slices.Contains(strings.Split(fileName, "/"), "..") || tensorCount == 0 {
		return t.Fail(rt.InvalidParam, "EH0001: %s: fileName is %q, tensorCount %d; use a name without \"..\" and one tensor or more", function, fileName, tensorCount)
	}
	c, d, code := r.exceptionDump(t, function)
	if d == nil {
		return code
	}
	m := d.Memory()
	if m == nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: device %d was reset", function, d.ID())
	}
	var found []Tensor
	for i, x := range tensors.Slice(tensorCount) {
		tensor, refusal := x.tensor(m)
		if refusal != "" {
			return t.Fail(rt.InvalidParam, "EH0001: %s: tensor %d: %s", function, i, refusal)
		}
		tensor.Name = fmt.Sprint(i)
		found = append(found, tensor)
	}
	var metadata map[string]string
	if userTag != nil {
		metadata = map[string]string{"userTag": *userTag}
	}
	now := time.Now()
	stamp := fmt.Sprintf("%s%03d", now.Format("20060102150405"), now.Nanosecond()/1e6)
	if err := write(filepath.Join(c.exceptionFolder(d.ID()), fileName+".custom."+stamp), found, metadata); err != nil {
		return t.Fail(rt.InternalError, "EH9999: %s: %v", function, err)
	}
	return 0
}

// tensor validates a description and finds the data of the tensor.
func (x *tensorInfo) tensor(m *rt.Memory) (t Tensor, refusal string) {
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
	t = Tensor{
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
	if n > room { // type and shape do not describe the data
		return Tensor{Output: t.Output, DType: dtype.Uint8, Format: t.Format, First: p, Shape: []int64{int64(x.size)}, Strides: []int64{1}}, ""
	}
	t.Strides = make([]int64, len(t.Shape))
	for i := len(t.Shape) - 1; i >= 0; i-- {
		t.Strides[i] = stride
		stride *= t.Shape[i]
	}
	return t, ""
}
