package dump_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/safetensors"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/dump"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// process is an emulated process with the functions of dumps.
type process struct {
	*rttest.Process
	dumps *dump.Runtime
}

func newProcess(t *testing.T) process {
	p := rttest.New(t)
	d := dump.New(p.Runtime)
	p.Add(d.Functions())
	return process{p, d}
}

// tensorInfo is C's acldumpTensorInfo.
type tensorInfo struct {
	kind             int32
	size             uint64
	_                int32 // format
	dtype            int32
	addr             uint64
	addrKind         int32
	placement        int32
	_                uint32 // offset among the arguments of a kernel
	dims, originDims uint32
	shape            [abi.ACL_DUMP_MAX_SHAPE_NUM]uint64
	_                [abi.ACL_DUMP_MAX_SHAPE_NUM]uint64 // original shape
}

// config writes a configuration file for dumps into a folder.
func config(t testing.TB, dir, dump string) string {
	path := filepath.Join(dir, "acl.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"dump":{`+dump+`}}`), 0o600))
	return path
}

// dumpFiles returns the files below a folder, without configurations, sorted by name.
func dumpFiles(t testing.TB, dir string) (paths []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "acl.json" {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

func float32s(t testing.TB, path, name string) (shape []int, values []float32) {
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	x, err := f.Tensor(name)
	require.NoError(t, err)
	values, err = safetensors.Values[float32](x)
	require.NoError(t, err)
	return x.Shape, values
}

// example returns the tensors of a call: a transposed input, an output, a packed one, and an empty
// one.
func example() []dump.Tensor {
	in, out, packed := []float32{1, 2, 3, 4, 5, 6}, []float32{7}, []byte{0x21, 0x43, 0x05}
	return []dump.Tensor{
		{Name: "self", DType: dtype.Float32, Shape: []int64{3, 2}, Strides: []int64{1, 3}, First: unsafe.Pointer(&in[0])},
		{Name: "weight", DType: dtype.Int4, Shape: []int64{5}, Strides: []int64{1}, First: unsafe.Pointer(&packed[0])},
		{Name: "list", DType: dtype.Float32, Shape: []int64{0, 4}, Strides: []int64{4, 1}},
		{Name: "list", DType: dtype.Float32, Shape: []int64{}, Strides: []int64{}, First: unsafe.Pointer(&out[0])},
		{Name: "out", Output: true, DType: dtype.Float32, Shape: []int64{1}, Strides: []int64{1}, First: unsafe.Pointer(&out[0])},
	}
}

func TestDumpOfOperators(t *testing.T) {
	for mode, want := range map[string][]string{
		"output": {"output.out"}, "input": {"input.list", "input.list.3", "input.self", "input.weight"},
		"all": {"input.list", "input.list.3", "input.self", "input.weight", "output.out"},
	} {
		t.Run(mode, func(t *testing.T) {
			p, dir := newProcess(t), t.TempDir()
			th := new(rt.Thread)
			p.Must(th, "aclInit", 0)
			th = p.Thread(0)
			s, _ := p.Runtime.Stream(th, p.Stream(th))
			require.False(t, p.dumps.Wanted())
			p.Must(th, "aclmdlInitDump")
			p.Must(th, "aclmdlSetDump", rttest.String(config(t, dir, `"dump_path":"`+dir+`","dump_list":[{}],"dump_op_switch":"on","dump_mode":"`+mode+`"`)))
			require.Equal(t, dir, rt.CString(p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.DATA_DUMP)})))
			require.Equal(t, p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.DATA_DUMP)}), p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.DATA_DUMP)}), "one text")
			require.Zero(t, p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.AIC_ERR_BRIEF_DUMP)}))
			require.True(t, p.dumps.Wanted())
			require.NoError(t, p.dumps.Write(s, "aclnnExample", example(), false))
			require.NoError(t, p.dumps.Write(s, "aclnnExample", example(), true), "a failure is no dump of data")
			files := dumpFiles(t, dir)
			require.Len(t, files, 1)
			require.Regexp(t, `/\d{14}/0/Example\.aclnnExample\.0\.\d+\.\d+$`, files[0])
			f, err := safetensors.Open(files[0])
			require.NoError(t, err)
			require.Equal(t, want, f.Names())
			require.NoError(t, f.Close())
			if mode != "output" {
				shape, values := float32s(t, files[0], "input.self")
				require.Equal(t, []int{3, 2}, shape)
				require.Equal(t, []float32{1, 4, 2, 5, 3, 6}, values)
			}
			p.Must(th, "aclmdlFinalizeDump")
			require.False(t, p.dumps.Wanted())
		})
	}
}

func TestDumpOfArguments(t *testing.T) {
	p, dir := newProcess(t), filepath.Join(t.TempDir(), "made", "here")
	th := p.Thread(0)
	s, _ := p.Runtime.Stream(th, 0)
	p.Must(th, "aclopStartDumpArgs", 1, rttest.String(dir))
	for range 3 { // equal shapes share one file
		require.NoError(t, p.dumps.Write(s, "aclnnExample", example(), false))
	}
	require.NoError(t, p.dumps.Write(s, "aclnnExample", example()[:2], false))
	p.Must(th, "aclopStopDumpArgs", 1)
	require.NoError(t, p.dumps.Write(s, "aclnnExample", nil, false))
	files := dumpFiles(t, dir)
	require.Len(t, files, 2)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		var document struct {
			OpType string
			Inputs []struct {
				Name, DataType string
				Shape          []int64
			}
		}
		require.NoError(t, json.Unmarshal(b, &document))
		assert.Equal(t, "Example", document.OpType)
		assert.Equal(t, "self", document.Inputs[0].Name)
		assert.Equal(t, []int64{3, 2}, document.Inputs[0].Shape)
	}
}

func TestDumpOfExceptions(t *testing.T) {
	t.Setenv("NPU_COLLECT_PATH", "")
	t.Setenv("ASCEND_WORK_PATH", "")
	p, dir := newProcess(t), t.TempDir()
	th := new(rt.Thread)
	p.Must(th, "aclInit", rttest.String(config(t, dir, `"dump_path":"`+dir+`","dump_scene":"aic_err_brief_dump"`)))
	require.Equal(t, rt.RepeatInitialize, p.Call(th, "aclmdlInitDump"))
	th = p.Thread(1)
	s, _ := p.Runtime.Stream(th, 0)
	require.Equal(t, dir, rt.CString(p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.AIC_ERR_NORM_DUMP)})))
	path := make([]byte, 4096)
	p.Must(th, "acldumpGetExceptionInfoPath", rttest.Address(&path[0]), 4096)
	folder := filepath.Join(dir, "extra-info", "data-dump", "1") + "/"
	require.Equal(t, folder, rt.CString(rttest.Address(&path[0])))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpGetExceptionInfoPath", rttest.Address(&path[0]), uint64(len(folder))))

	require.NoError(t, p.dumps.Write(s, "aclnnExample", example(), false))
	require.Empty(t, dumpFiles(t, dir))
	require.NoError(t, p.dumps.Write(s, "aclnnExample", example(), true))
	require.Len(t, dumpFiles(t, folder), 1)

	d := p.Out(th, "aclrtMalloc", 0, 64, 0)
	numbers := [4]float32{1, 2, 3, 4}
	p.Must(th, "aclrtMemcpy", d, 64, rttest.Address(&numbers[0]), 16, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE))
	info := tensorInfo{kind: int32(abi.ACL_DUMP_TENSOR_OUTPUT), size: 16, dtype: int32(abi.ACL_FLOAT), addr: d, addrKind: int32(abi.ACL_DUMP_ADDR_RAW), dims: 2, originDims: 2}
	info.shape[0], info.shape[1] = 2, 2
	odd := info
	odd.kind, odd.shape[0] = int32(abi.ACL_DUMP_TENSOR_INPUT), 1<<33
	odd.shape[1] = 1 << 33
	both := [2]tensorInfo{info, odd}
	require.EqualValues(t, 456, unsafe.Sizeof(info))
	p.Must(th, "acldumpSaveExceptionInfo", rttest.String("mine"), rttest.String("a tag"), rttest.Address(&both[0]), 2)
	saved, err := filepath.Glob(folder + "mine.custom.*")
	require.NoError(t, err)
	require.Len(t, saved, 1)
	shape, values := float32s(t, saved[0], "output.0")
	require.Equal(t, []int{2, 2}, shape)
	require.Equal(t, numbers[:], values)
	f, err := safetensors.Open(saved[0])
	require.NoError(t, err)
	raw, err := f.Tensor("input.1")
	require.NoError(t, err)
	require.Equal(t, []int{16}, raw.Shape, "a shape that does not fit gives bytes")
	require.Equal(t, "a tag", f.Metadata()["userTag"])
	require.NoError(t, f.Close())

	for _, x := range []struct {
		change func(*tensorInfo)
		text   string
	}{
		{func(x *tensorInfo) { x.addr = 0 }, "null"},
		{func(x *tensorInfo) { x.size = 0 }, "size 0"},
		{func(x *tensorInfo) { x.dims = 26 }, "26 dimensions"},
		{func(x *tensorInfo) { x.originDims = 26 }, "26 of the origin"},
		{func(x *tensorInfo) { x.addrKind = int32(abi.ACL_DUMP_ADDR_PTR) }, "ACL_DUMP_ADDR_RAW"},
		{func(x *tensorInfo) { x.placement = int32(abi.ACL_DUMP_PLACEMENT_HOST) }, "ACL_DUMP_PLACEMENT_DEVICE"},
		{func(x *tensorInfo) { x.size = 1 << 20 }, "beyond"},
	} {
		wrong := info
		x.change(&wrong)
		require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpSaveExceptionInfo", rttest.String("mine"), 0, rttest.Address(&wrong), 1), x.text)
		require.Contains(t, rttest.Text(th), x.text)
	}
	for _, name := range []string{"", "..", "a/../b"} {
		require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpSaveExceptionInfo", rttest.String(name), 0, rttest.Address(&info), 1), name)
	}
	require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpSaveExceptionInfo", rttest.String("mine"), 0, rttest.Address(&info), 0))
	p.Must(th, "aclrtFree", d)
}

func TestDumpFaults(t *testing.T) {
	p, dir := newProcess(t), t.TempDir()
	th := p.Thread(0)
	for _, f := range []string{"aclmdlInitDump", "aclmdlSetDump", "aclmdlFinalizeDump"} {
		require.Equal(t, rt.Uninitialized, p.Call(th, f, 0), f)
	}
	rttest.Text(th)
	for wanted, want := range map[string]string{
		`"dump_op_switch":"on"`:                                               "needs a dump_path",
		`"dump_path":"x","dump_mode":"some"`:                                  "dump_mode is some",
		`"dump_path":"x","dump_data":"stats"`:                                 "dump_data is stats",
		`"dump_path":"x","dump_scene":"watcher"`:                              "dump_scene is watcher",
		`"dump_path":"x","dump_debug":"on"`:                                   "overflows",
		`"dump_path":"x","dump_scene":"lite_exception","dump_op_switch":"on"`: "exclude one another",
	} {
		require.Equal(t, dump.ConfigInvalid, p.Call(th, "aclInit", rttest.String(config(t, dir, wanted))), wanted)
		require.Contains(t, rttest.Text(th), want)
	}
	p.Must(th, "aclInit", 0)
	require.Equal(t, dump.NotRun, p.Call(th, "aclmdlSetDump", 0))
	require.Equal(t, dump.NotRun, p.Call(th, "aclmdlFinalizeDump"))
	p.Must(th, "aclmdlInitDump")
	require.Equal(t, rt.RepeatInitialize, p.Call(th, "aclmdlInitDump"))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclmdlSetDump", 0))
	require.Equal(t, rt.InvalidFile, p.Call(th, "aclmdlSetDump", rttest.String(filepath.Join(dir, "missing"))))
	require.Equal(t, dump.ConfigInvalid, p.Call(th, "aclmdlSetDump", rttest.String(config(t, dir, `"dump_debug":"on"`))))
	require.Equal(t, dump.NotRun, p.Call(th, "acldumpGetExceptionInfoPath", rttest.Address(new(byte)), 1))
	require.Equal(t, dump.NotRun, p.Call(th, "acldumpSaveExceptionInfo", rttest.String("x"), 0, rttest.Address(&tensorInfo{}), 1))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpSaveExceptionInfo", 0, 0, 0, 1))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpRegCallback", 0, 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acldumpRegCallback", 1, 1))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclopStartDumpArgs", 2, rttest.String(dir)))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclopStartDumpArgs", 1, 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclopStartDumpArgs", 1, rttest.String(strings.Repeat("x", 300))))
	require.Equal(t, rt.Failure, p.Call(th, "aclopStopDumpArgs", 1))
	require.Zero(t, p.Functions["acldumpGetPath"](th, []uint64{uint64(abi.OVERFLOW_DUMP)}))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
