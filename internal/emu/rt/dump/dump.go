package dump

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Runtime adds the functions of dumps to a runtime.
type Runtime struct {
	*rt.Runtime
	dumps dumps
}

// New returns the dump functions for the runtime of a process.
func New(r *rt.Runtime) *Runtime {
	d := &Runtime{Runtime: r}
	r.AtInitialize(d.begin)
	r.AtFinalize(d.dumps.close)
	return d
}

// dumps holds the state of operator dumps. The files are in the safetensors format, with CANN's
// names and folders.
type dumps struct {
	wanted     atomic.Bool // whether Write must be called for operators; read at every launch
	mu         sync.Mutex
	started    bool               // aclmdlInitDump was called
	configured bool               // set up by aclInit; the functions must then not set it again
	config     config             // set by aclInit or aclmdlSetDump
	since      time.Time          // when config last changed
	callback   uintptr            // receives the files instead of the disk
	arguments  string             // folder for the descriptions of calls, "" to write none
	paths      map[string]uintptr // C strings returned to the program
}

// config is the part "dump" of a configuration file.
type config struct {
	Path      string `json:"dump_path"`
	Mode      string `json:"dump_mode"`      // input, output or all
	Operators string `json:"dump_op_switch"` // on: the tensors of each operator
	Data      string `json:"dump_data"`
	Scene     string `json:"dump_scene"` // one of exceptionScenes: the tensors of operators that fail
	Overflow  string `json:"dump_debug"`
}

// exceptionScenes holds the values of dump_scene for exceptions. All of them write the same dump
// here, since emulated cores have no registers.
var exceptionScenes = map[string]bool{"aic_err_brief_dump": true, "aic_err_norm_dump": true, "aic_err_detail_dump": true, "lite_exception": true}

// readConfig parses the part "dump" of a configuration. refusal is "" or the reason why the
// emulator cannot do what it asks for.
func readConfig(text []byte) (c config, refusal string) {
	var file struct {
		Dump config `json:"dump"`
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

func (c config) operators() bool  { return c.Operators == "on" }
func (c config) exceptions() bool { return c.Scene != "" }

// exceptionRoot returns the folder for dumps of exceptions; the environment takes precedence over
// the configuration.
func (c config) exceptionRoot() string {
	for _, root := range []string{os.Getenv("NPU_COLLECT_PATH"), os.Getenv("ASCEND_WORK_PATH"), c.Path} {
		if root != "" {
			return root
		}
	}
	return "."
}

// exceptionFolder returns the folder for exception dumps of a device.
func (c config) exceptionFolder(device int) string {
	return filepath.Join(c.exceptionRoot(), "extra-info", "data-dump", strconv.Itoa(device)) + "/"
}

// set changes the configuration. The caller holds mu.
func (d *dumps) set(c config, arguments string) {
	if c != d.config {
		d.config, d.since = c, time.Now()
	}
	d.arguments = arguments
	d.wanted.Store(arguments != "" || c.operators() || c.exceptions())
}

// begin applies the configuration of aclInit.
func (r *Runtime) begin(t *rt.Thread, path string, text []byte) rt.Code {
	c, refusal := readConfig(text)
	if refusal != "" {
		return t.Fail(ConfigInvalid, "EP0009: aclInit: %s: %s", path, refusal)
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.configured = c.operators() || c.exceptions(); d.configured {
		d.set(c, d.arguments)
	}
	return 0
}

// close clears the state when the process releases its devices.
func (d *dumps) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.configured, d.callback = false, false, 0
	d.set(config{}, "")
}

// Error codes of dumps.
const (
	NotRun        = int32(abi.ACL_ERROR_DUMP_NOT_RUN)
	ConfigInvalid = int32(abi.ACL_ERROR_INVALID_DUMP_CONFIG)
)

func (r *Runtime) aclmdlInitDump(t *rt.Thread) rt.Code {
	const function = "aclmdlInitDump"
	if code := r.Initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started || d.configured {
		return t.Fail(rt.RepeatInitialize, "EP0008: %s: dumps are initialised already, by this function or by the configuration of aclInit", function)
	}
	d.started = true
	return 0
}

func (r *Runtime) aclmdlSetDump(t *rt.Thread, dumpCfgPath *string) rt.Code {
	const function = "aclmdlSetDump"
	if code := r.Initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		return t.Fail(NotRun, "EP0008: %s: call aclmdlInitDump first", function)
	}
	if dumpCfgPath == nil {
		return t.Null(function, "dumpCfgPath")
	}
	text, err := os.ReadFile(*dumpCfgPath)
	if err != nil {
		return t.Fail(rt.InvalidFile, "EH0003: %s: the configuration cannot be read: %v", function, err)
	}
	c, refusal := readConfig(text)
	if refusal != "" {
		return t.Fail(ConfigInvalid, "EP0009: %s: %s: %s", function, *dumpCfgPath, refusal)
	}
	d.set(c, d.arguments)
	return 0
}

// aclmdlFinalizeDump ends the dump that aclmdlSetDump began. Tasks that are already queued are
// still dumped.
func (r *Runtime) aclmdlFinalizeDump(t *rt.Thread) rt.Code {
	const function = "aclmdlFinalizeDump"
	if code := r.Initialised(t, function); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		return t.Fail(NotRun, "EP0008: %s: call aclmdlInitDump first", function)
	}
	d.started = false
	d.set(config{}, d.arguments)
	return 0
}

func (r *Runtime) acldumpRegCallback(t *rt.Thread, messageCallback rt.Address, flag int32) rt.Code {
	if flag != 0 {
		return t.Fail(rt.InvalidParam, "EH0001: acldumpRegCallback: flag is %d; it must be 0", flag)
	}
	r.dumps.mu.Lock()
	defer r.dumps.mu.Unlock()
	r.dumps.callback = uintptr(messageCallback)
	return 0
}

func (r *Runtime) acldumpUnregCallback() {
	r.dumps.mu.Lock()
	defer r.dumps.mu.Unlock()
	r.dumps.callback = 0
}

// text returns the C string of a path, the same one at every call. The caller holds d.mu.
func (d *dumps) text(path string) uintptr {
	at, ok := d.paths[path]
	if !ok {
		if d.paths == nil {
			d.paths = make(map[string]uintptr)
		}
		at = uintptr(rt.NewCString(path))
		d.paths[path] = at
	}
	return at
}

// acldumpGetPath returns null for a kind of dump that is off.
func (r *Runtime) acldumpGetPath(dumpType int32) uintptr {
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	switch kind := int64(dumpType); {
	case kind == abi.DATA_DUMP && d.config.operators():
		return d.text(d.config.Path)
	case kind >= abi.AIC_ERR_BRIEF_DUMP && kind <= abi.AIC_ERR_DETAIL_DUMP && d.config.exceptions():
		return d.text(d.config.exceptionRoot())
	}
	return 0
}

func (r *Runtime) argumentDump(t *rt.Thread, function string, kind uint32) rt.Code {
	if kind == uint32(abi.ACL_OP_DUMP_OP_AICORE_ARGS) {
		return 0
	}
	return t.Fail(rt.InvalidParam, "EH0001: %s: dumpType is %d; use ACL_OP_DUMP_OP_AICORE_ARGS (1)", function, kind)
}

// aclopStartDumpArgs creates the folder if it does not exist.
func (r *Runtime) aclopStartDumpArgs(t *rt.Thread, dumpType uint32, path *string) rt.Code {
	const function = "aclopStartDumpArgs"
	if code := r.argumentDump(t, function, dumpType); code != 0 {
		return code
	}
	if path == nil || *path == "" {
		return t.Null(function, "path")
	}
	if err := os.MkdirAll(*path, 0o750); err != nil {
		return t.Fail(rt.InvalidParam, "EH0003: %s: %v", function, err)
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(d.config, *path)
	return 0
}

func (r *Runtime) aclopStopDumpArgs(t *rt.Thread, dumpType uint32) rt.Code {
	const function = "aclopStopDumpArgs"
	if code := r.argumentDump(t, function, dumpType); code != 0 {
		return code
	}
	d := &r.dumps
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.arguments == "" {
		return t.Fail(rt.Failure, "EH0001: %s: call aclopStartDumpArgs first", function)
	}
	d.set(d.config, "")
	return 0
}
