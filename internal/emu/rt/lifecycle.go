package rt

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"strconv"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
)

// lifecycle is the state of aclInit and aclFinalize.
type lifecycle struct {
	mu            sync.Mutex
	count         uint64
	finalized     bool
	configured    bool
	config        [sha256.Size]byte // of the first successful aclInit
	defaultDevice *int32
}

// initConfig holds the keys that the emulator reads from aclInit's configuration file; other keys
// are ignored.
type initConfig struct {
	DefaultDevice *struct {
		Device string `json:"default_device"`
	} `json:"defaultDevice"`
}

func (r *Runtime) aclInit(t *Thread, configPath *string) Code {
	knob.Reread()
	l := &r.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > 0 {
		l.count++
		return Code(RepeatInitialize) // without an error text, which would head the next error
	}
	if r.err != nil {
		return t.Fail(InternalError, "EH9999: aclInit: %v", r.err)
	}
	if l.finalized && l.configured && r.config.API == abi.V81RC1 {
		return t.Fail(RepeatInitialize, "EH0006: aclInit: this version cannot be initialised again after aclFinalize")
	}
	var text []byte
	path := ""
	if configPath != nil && *configPath != "" {
		path = *configPath
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return t.Fail(InvalidFile, "EH0003: aclInit: the configuration cannot be read: %v", err)
		}
	}
	sum := sha256.Sum256(text)
	if l.configured && sum != l.config {
		return t.Fail(InvalidParam, "EH0001: aclInit: the configuration differs from that of the first aclInit of the process")
	}
	device, code := parseInitConfig(t, text)
	if code != 0 {
		return code
	}
	for _, begin := range r.begins {
		if code := begin(t, path, text); code != 0 {
			return code
		}
	}
	l.count, l.finalized, l.configured, l.config, l.defaultDevice = 1, false, true, sum, device
	return 0
}

func parseInitConfig(t *Thread, text []byte) (device *int32, code Code) {
	if len(text) == 0 {
		return nil, 0
	}
	if jsonDepth(text) > 10 {
		return nil, t.Fail(ParseFile, "EH0004: aclInit: the configuration nests deeper than 10 levels")
	}
	var c initConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, t.Fail(ParseFile, "EH0004: aclInit: the configuration is not valid JSON: %v", err)
	}
	if c.DefaultDevice == nil {
		return nil, 0
	}
	n, err := strconv.ParseInt(c.DefaultDevice.Device, 10, 32)
	if err != nil || n < 0 {
		return nil, t.Fail(InvalidParam, "EH0001: aclInit: defaultDevice.default_device %q is not a device number", c.DefaultDevice.Device)
	}
	id := int32(n)
	return &id, 0
}

// jsonDepth returns the deepest nesting of brackets outside strings.
func jsonDepth(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			depth++
			deepest = max(deepest, depth)
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
	}
	return deepest
}

// aclFinalize drops all references at once, as CANN does on these chips.
func (r *Runtime) aclFinalize(t *Thread) Code {
	l := &r.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finalized {
		return t.Fail(RepeatFinalize, "EH0007: aclFinalize: already finalized")
	}
	l.count, l.finalized = 0, true
	r.release()
	return 0
}

func (r *Runtime) aclFinalizeReference(t *Thread, refCount *uint64) Code {
	l := &r.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return t.Fail(RepeatFinalize, "EH0007: aclFinalizeReference: there is no reference left")
	}
	l.count--
	if refCount != nil {
		*refCount = l.count
	}
	if l.count == 0 {
		l.finalized = true
		r.release()
	}
	return 0
}

// Initialised refuses calls before aclInit.
func (r *Runtime) Initialised(t *Thread, function string) Code {
	r.life.mu.Lock()
	defer r.life.mu.Unlock()
	if r.life.count > 0 {
		return 0
	}
	return t.Fail(Uninitialized, "EP0008: %s: call aclInit first", function)
}

// AtInitialize registers a function that reads its part of the configuration of aclInit, a JSON
// document or nothing, and refuses a wrong one. It must be called while the machine is being set up.
func (r *Runtime) AtInitialize(begin func(t *Thread, path string, text []byte) Code) {
	r.begins = append(r.begins, begin)
}

// AtFinalize registers a function that runs when the process releases its devices. It must be
// called while the machine is being set up.
func (r *Runtime) AtFinalize(end func()) { r.ends = append(r.ends, end) }

// release resets every device, so that a process can initialise again from a clean state.
func (r *Runtime) release() {
	r.Trace.Flush()
	r.Schedule.flush()
	r.virtual.close()
	r.managed.close()
	for _, end := range r.ends {
		end()
	}
	for h := range r.Handles.Of(MemPoolKind) {
		r.Handles.Delete(h)
	}
	for h, o := range r.Handles.Of(PhysicalKind) {
		r.Handles.Delete(h)
		r.virtual.free(o.(*physical))
	}
	for _, d := range r.devices {
		d.reset(true)
	}
}
