package rt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// dumps is what the process writes of the operators that it runs. Files are in the safetensors
// format, named and placed as CANN's.
type dumps struct {
	wanted     atomic.Bool // whether calls of operators are to be told; every launch asks
	mu         sync.Mutex
	started    bool              // aclmdlInitDump
	configured bool              // by aclInit, which leaves nothing for the functions to set
	config     dumpConfig        // of either
	since      time.Time         // when it changed
	callback   uint64            // takes the files instead of the disk
	arguments  string            // folder for the descriptions of calls, "" for none
	paths      map[string]uint64 // C texts that were handed out
}

// dumpConfig is the part "dump" of a configuration file.
type dumpConfig struct {
	Path      string `json:"dump_path"`
	Mode      string `json:"dump_mode"`      // input, output or all
	Operators string `json:"dump_op_switch"` // on: the tensors of each operator
	Data      string `json:"dump_data"`
	Scene     string `json:"dump_scene"` // one of exceptionScenes: the tensors of operators that fail
	Overflow  string `json:"dump_debug"`
}

// exceptionScenes are the values of dump_scene for exceptions. All write the same here, where a
// core has no registers.
var exceptionScenes = map[string]bool{"aic_err_brief_dump": true, "aic_err_norm_dump": true, "aic_err_detail_dump": true, "lite_exception": true}

// readDumpConfig says "" or why the emulator cannot do what a configuration asks for.
func readDumpConfig(text []byte) (c dumpConfig, refusal string) {
	var file struct {
		Dump dumpConfig `json:"dump"`
	}
	if len(text) == 0 {
		return c, ""
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return c, "it is not valid JSON: " + err.Error()
	}
	c = file.Dump
	if c.Mode == "" {
		c.Mode = "output"
	}
	switch {
	case c.Mode != "input" && c.Mode != "output" && c.Mode != "all":
		return c, "dump_mode is " + c.Mode + "; use input, output or all"
	case c.Scene != "" && !exceptionScenes[c.Scene]:
		return c, "dump_scene is " + c.Scene + "; the emulator has the dumps of exceptions only"
	case c.Overflow == "on":
		return c, "dump_debug is on; the emulator does not dump overflows"
	case c.Data != "" && c.Data != "tensor":
		return c, "dump_data is " + c.Data + "; the emulator has tensor only"
	case c.exceptions() && c.operators():
		return c, "dump_scene and dump_op_switch exclude one another"
	case c.operators() && c.Path == "":
		return c, "dump_op_switch needs a dump_path"
	}
	return c, ""
}

func (c dumpConfig) operators() bool  { return c.Operators == "on" }
func (c dumpConfig) exceptions() bool { return c.Scene != "" }

// exceptionRoot is where the dumps of exceptions go; the environment decides first.
func (c dumpConfig) exceptionRoot() string {
	for _, root := range []string{os.Getenv("NPU_COLLECT_PATH"), os.Getenv("ASCEND_WORK_PATH"), c.Path} {
		if root != "" {
			return root
		}
	}
	return "."
}

// exceptionFolder is the folder for a device.
func (c dumpConfig) exceptionFolder(device int) string {
	return filepath.Join(c.exceptionRoot(), "extra-info", "data-dump", strconv.Itoa(device)) + "/"
}

// set is for who holds mu.
func (d *dumps) set(c dumpConfig, arguments string) {
	if c != d.config {
		d.config, d.since = c, time.Now()
	}
	d.arguments = arguments
	d.wanted.Store(arguments != "" || c.operators() || c.exceptions())
}

// begin is set for aclInit.
func (d *dumps) begin(c dumpConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.configured = c.operators() || c.exceptions(); d.configured {
		d.set(c, d.arguments)
	}
}

// close forgets everything, when the process gives its devices up.
func (d *dumps) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.configured, d.callback = false, false, 0
	d.set(dumpConfig{}, "")
}

func (r *Runtime) dumpFunctions() table {
	return table{
		"aclmdlInitDump":              r.initDump,
		"aclmdlSetDump":               r.setDump,
		"aclmdlFinalizeDump":          r.finalizeDump,
		"acldumpRegCallback":          r.registerDump,
		"acldumpUnregCallback":        r.unregisterDump,
		"acldumpGetPath":              r.dumpPath,
		"aclopStartDumpArgs":          r.startArguments,
		"aclopStopDumpArgs":           r.stopArguments,
		"acldumpGetExceptionInfoPath": r.exceptionPath,
		"acldumpSaveExceptionInfo":    r.saveException,
	}
}

const (
	dumpNotRun        = int32(abi.ACL_ERROR_DUMP_NOT_RUN)
	dumpConfigInvalid = int32(abi.ACL_ERROR_INVALID_DUMP_CONFIG)
	uninitialized     = int32(abi.ACL_ERROR_UNINITIALIZE)
)

// initialised refuses what comes before aclInit.
func (r *Runtime) initialised(t *Thread, function string) uint64 {
	r.life.mu.Lock()
	defer r.life.mu.Unlock()
	if r.life.count > 0 {
		return 0
	}
	return t.Fail(uninitialized, "EP0008: %s: call aclInit first", function)
}

func (r *Runtime) initDump(t *Thread, _ []uint64) uint64 {
	const function = "aclmdlInitDump"
	if code := r.initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started || d.configured {
		return t.Fail(repeatInitialize, "EP0008: %s: dumps are initialised already, by this function or by the configuration of aclInit", function)
	}
	d.started = true
	return 0
}

func (r *Runtime) setDump(t *Thread, a []uint64) uint64 {
	const function = "aclmdlSetDump"
	if code := r.initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		return t.Fail(dumpNotRun, "EP0008: %s: call aclmdlInitDump first", function)
	}
	if a[0] == 0 {
		return t.null(function, "dumpCfgPath")
	}
	text, err := os.ReadFile(CString(a[0]))
	if err != nil {
		return t.Fail(invalidFile, "EH0003: %s: the configuration cannot be read: %v", function, err)
	}
	c, refusal := readDumpConfig(text)
	if refusal != "" {
		return t.Fail(dumpConfigInvalid, "EP0009: %s: %s: %s", function, CString(a[0]), refusal)
	}
	d.set(c, d.arguments)
	return 0
}

// finalizeDump ends what aclmdlSetDump began; tasks that are queued already still dump.
func (r *Runtime) finalizeDump(t *Thread, _ []uint64) uint64 {
	const function = "aclmdlFinalizeDump"
	if code := r.initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		return t.Fail(dumpNotRun, "EP0008: %s: call aclmdlInitDump first", function)
	}
	d.started = false
	d.set(dumpConfig{}, d.arguments)
	return 0
}

func (r *Runtime) registerDump(t *Thread, a []uint64) uint64 {
	const function = "acldumpRegCallback"
	if a[0] == 0 {
		return t.null(function, "messageCallback")
	}
	if flag := int32(a[1]); flag != 0 {
		return t.Fail(invalidParam, "EH0001: %s: flag is %d; it must be 0", function, flag)
	}
	r.dumps.mu.Lock()
	defer r.dumps.mu.Unlock()
	r.dumps.callback = a[0]
	return 0
}

func (r *Runtime) unregisterDump(*Thread, []uint64) uint64 {
	r.dumps.mu.Lock()
	defer r.dumps.mu.Unlock()
	r.dumps.callback = 0
	return 0
}

// text is one C text for each path, however often a program asks. d.mu is held.
func (d *dumps) text(path string) uint64 {
	at, ok := d.paths[path]
	if !ok {
		if d.paths == nil {
			d.paths = make(map[string]uint64)
		}
		at = NewCString(path)
		d.paths[path] = at
	}
	return at
}

// dumpPath gives null for a kind of dump that is off.
func (r *Runtime) dumpPath(_ *Thread, a []uint64) uint64 {
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	switch kind := int64(int32(a[0])); {
	case kind == abi.DATA_DUMP && d.config.operators():
		return d.text(d.config.Path)
	case kind >= abi.AIC_ERR_BRIEF_DUMP && kind <= abi.AIC_ERR_DETAIL_DUMP && d.config.exceptions():
		return d.text(d.config.exceptionRoot())
	}
	return 0
}

func (r *Runtime) argumentDump(t *Thread, function string, kind uint32) uint64 {
	if kind == uint32(abi.ACL_OP_DUMP_OP_AICORE_ARGS) {
		return 0
	}
	return t.Fail(invalidParam, "EH0001: %s: dumpType is %d; use ACL_OP_DUMP_OP_AICORE_ARGS (1)", function, kind)
}

// startArguments makes the folder, which may be there.
func (r *Runtime) startArguments(t *Thread, a []uint64) uint64 {
	const function = "aclopStartDumpArgs"
	if code := r.argumentDump(t, function, uint32(a[0])); code != 0 {
		return code
	}
	if a[1] == 0 || CString(a[1]) == "" {
		return t.null(function, "path")
	}
	path := CString(a[1])
	if err := os.MkdirAll(path, 0o750); err != nil {
		return t.Fail(invalidParam, "EH0003: %s: %v", function, err)
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(d.config, path)
	return 0
}

func (r *Runtime) stopArguments(t *Thread, a []uint64) uint64 {
	const function = "aclopStopDumpArgs"
	if code := r.argumentDump(t, function, uint32(a[0])); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.arguments == "" {
		return t.Fail(failure, "EH0001: %s: call aclopStartDumpArgs first", function)
	}
	d.set(d.config, "")
	return 0
}
