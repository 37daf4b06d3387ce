package hccl

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/abi"
)

// Determinism selects whether repeated reductions give bit-identical results.
type Determinism uint32

// Degrees of determinism. Strict also fixes the order of additions; only Atlas A2 supports it.
const (
	DeterminismUnset Determinism = iota // as the variable HCCL_DETERMINISTIC has it
	NotDeterministic
	Deterministic
	Strict
)

// Expansion selects the processor that makes the device's tasks of a collective.
type Expansion uint32

// Expansion modes (HCCL_OP_EXPANSION_MODE). Each chip supports only some of them, and HCCL of 8.1
// knows the first four. HCCL does not refuse another one: it logs a warning and takes its default.
const (
	ExpandDefault Expansion = iota
	ExpandOnHost
	ExpandOnAICPU
	// ExpandOnVectorCores leaves what vector cores cannot do to another processor.
	ExpandOnVectorCores
	// ExpandOnVectorCoresOnly refuses what vector cores cannot do; for A2 and A3.
	ExpandOnVectorCoresOnly
	// ExpandOnCCUMemory and ExpandOnCCUScheduler use the collective communication unit of the
	// Ascend 950, with its own memory or as a scheduler.
	ExpandOnCCUMemory
	ExpandOnCCUScheduler
)

// Config configures a communicator (HcclCommConfig). The zero value leaves all settings to the
// environment and HCCL. All ranks must use the same.
type Config struct {
	// Name must be unique among the communicators of a device and have at most 127 bytes. If it is
	// empty, HCCL generates one.
	Name string
	// Tag appears in HCCL's logs, at most 127 bytes.
	Tag string
	// BufferMiB is the size of each of the communicator's two buffers on the device. 0 means
	// HCCL_BUFFSIZE, or 200 if that is not set.
	BufferMiB int
	// Determinism of this communicator's reductions.
	Determinism Determinism
	// Expansion of this communicator's collectives.
	Expansion Expansion
	// TrafficClass (a multiple of 4 up to 252) and ServiceLevel (0 to 7) configure RoCE. Nil means
	// HCCL's defaults, 132 and 4.
	TrafficClass, ServiceLevel *int

	// The settings below came with CANN 8.5.0. With an older HCCL they are refused with acl.ErrNotSupported, and so are
	// those without effect on the chip: Timeout, JobID and WorldRank on the Ascend 950, which reads the environment,
	// and Retry and WindowGiB on other chips than Atlas A3.

	// Timeout is how long a collective waits for its peers, in whole seconds, or NoTimeout. 0 means
	// HCCL_EXEC_TIMEOUT, or 1836 s if that is not set.
	Timeout time.Duration
	// Algorithm selects how servers and super pods exchange, as HCCL_ALGO does: "level0:NA;level1:ring", or
	// "allreduce=level0:NA;level1:ring/others=level0:NA;level1:NHR"; at most 1,599 bytes. If it is empty, HCCL_ALGO
	// counts, and without that HCCL chooses.
	Algorithm string
	// Retry repeats collectives after the fault of a link, on Atlas A3. Nil means HCCL_OP_RETRY_ENABLE.
	Retry *Retry
	// JobID and WorldRank say to the network's balancing of load which job this is, and which of its ranks.
	JobID     uint64
	WorldRank uint32

	// The settings below came with CANN 9.0.0.

	// QoS is the class of service in the super pod's network, 0 to 7. Nil means HCCL's default, 6 on Atlas A2 and A3
	// and 4 on the 950.
	QoS *int
	// WindowGiB is how much memory each rank can register with RegisterWindow on Atlas A3. 0 means 16.
	WindowGiB int
}

// NoTimeout lets collectives wait for their peers for ever.
const NoTimeout time.Duration = -1

// Retry says when HCCL repeats a collective after the fault of a link (hcclRetryEnable, hcclRetryParams).
type Retry struct {
	Servers   bool // between servers
	SuperPods bool // between super pods
	// Count is how often it is repeated, 1 to 10; Hold and Interval, whole milliseconds up to a minute, are the time
	// before the first repetition and between repetitions. With Count 0, HCCL_OP_RETRY_PARAMS counts, or without that
	// once, 5 s and 1 s; Hold and Interval are then 0.
	Count          int
	Hold, Interval time.Duration
}

func (r *Retry) check() error {
	if r == nil {
		return nil
	}
	for name, d := range map[string]time.Duration{"Hold": r.Hold, "Interval": r.Interval} {
		if d < 0 || d > time.Minute || d%time.Millisecond != 0 || d != 0 && r.Count == 0 {
			return invalid("Config.Retry.%s is %v with Count %d; whole milliseconds up to a minute are possible, and 0 alone without Count", name, d, r.Count)
		}
	}
	if r.Count < 0 || r.Count > 10 {
		return invalid("Config.Retry.Count is %d; 1 to 10 are possible, and 0 for the environment's", r.Count)
	}
	return nil
}

// texts returns the two texts that HCCL reads.
func (r *Retry) texts() (enable, params string) {
	bit := map[bool]int{true: 1}
	enable = fmt.Sprintf("L1:%d, L2:%d", bit[r.Servers], bit[r.SuperPods])
	if r.Count > 0 {
		params = fmt.Sprintf("MaxCnt:%d, HoldTime:%d, IntervalTime:%d", r.Count, r.Hold.Milliseconds(), r.Interval.Milliseconds())
	}
	return enable, params
}

const (
	configUnset = uint32(abi.HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET)
	maxName     = len(hcclCommConfig{}.hcclCommName) - 1
)

// configHead is the layout of the reserved bytes of HcclCommConfig.
type configHead struct {
	size           uint64 // of the part that HCCL may read
	magic, version uint32
}

// This fails to compile if the head is larger than the reserved bytes.
var _ [len(hcclCommConfig{}.reserved) - int(unsafe.Sizeof(configHead{}))]byte

func (c Config) check() error {
	refuse := func(format string, args ...any) error {
		return invalid(format, args...)
	}
	for _, text := range []struct {
		name, value string
		most        int
	}{{"Name", c.Name, maxName}, {"Tag", c.Tag, maxName}, {"Algorithm", c.Algorithm, len(hcclCommConfig{}.hcclAlgo) - 1}} {
		if len(text.value) > text.most {
			return refuse("Config.%s has %d bytes; at most %d are possible", text.name, len(text.value), text.most)
		}
		if strings.ContainsRune(text.value, 0) {
			return refuse("Config.%s has a NUL byte", text.name)
		}
	}
	switch t, s, q := c.TrafficClass, c.ServiceLevel, c.QoS; {
	case c.BufferMiB < 0 || int64(c.BufferMiB) >= int64(configUnset):
		return refuse("Config.BufferMiB is %d", c.BufferMiB)
	case c.Determinism > Strict:
		return refuse("Config.Determinism is %d", c.Determinism)
	case c.Expansion > ExpandOnCCUScheduler:
		return refuse("Config.Expansion is %d; 0 to %d are possible", c.Expansion, ExpandOnCCUScheduler)
	case t != nil && (*t < 0 || *t > 252 || *t%4 != 0):
		return refuse("Config.TrafficClass is %d; a multiple of 4 up to 252 is possible", *t)
	case s != nil && (*s < 0 || *s > 7):
		return refuse("Config.ServiceLevel is %d; 0 to 7 are possible", *s)
	case q != nil && (*q < 0 || *q > 7):
		return refuse("Config.QoS is %d; 0 to 7 are possible", *q)
	case c.Timeout != NoTimeout && (c.Timeout < 0 || c.Timeout%time.Second != 0 || c.Timeout/time.Second > math.MaxInt32):
		return refuse("Config.Timeout is %v; whole seconds up to 2147483647 are possible, 0 and NoTimeout", c.Timeout)
	case c.WindowGiB < 0 || uint64(c.WindowGiB) > math.MaxUint64>>30:
		return refuse("Config.WindowGiB is %d; 0 to %d are possible", c.WindowGiB, uint64(math.MaxUint64>>30))
	}
	return c.Retry.check()
}

// effective refuses settings that HCCL takes and does not follow on a chip.
func (c Config) effective(chip string) error {
	a3, is950 := strings.HasPrefix(chip, "Ascend910_93"), strings.HasPrefix(chip, "Ascend950")
	for _, s := range []struct {
		name string
		idle bool
		help string
	}{
		{"Timeout", is950 && c.Timeout != 0, "set HCCL_EXEC_TIMEOUT"},
		{"JobID", is950 && c.JobID != 0, "leave it empty"},
		{"WorldRank", is950 && c.WorldRank != 0, "leave it empty"},
		{"Retry", !a3 && c.Retry != nil && *c.Retry != Retry{}, "Atlas A3 has it"},
		{"WindowGiB", !a3 && c.WindowGiB != 0, "Atlas A3 has it"},
	} {
		if s.idle {
			return fmt.Errorf("%w: Config.%s has no effect on %s; %s", acl.ErrNotSupported, s.name, chip, s.help)
		}
	}
	return nil
}

// encode makes the C struct for a chip, with the size that the loaded HCCL reads.
func (c Config) encode(chip string) (*hcclCommConfig, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.effective(chip); err != nil {
		return nil, err
	}
	capability, err := hcclGetCommConfigCapability(0)
	if err != nil {
		return nil, err
	}
	form, err := c.form(capability)
	if err != nil {
		return nil, err
	}
	e := &hcclCommConfig{
		hcclBufferSize:              configUnset,
		hcclDeterministic:           uint32(c.Determinism) - 1, // DeterminismUnset becomes all ones
		hcclOpExpansionMode:         uint32(c.Expansion),
		hcclRdmaTrafficClass:        configUnset,
		hcclRdmaServiceLevel:        configUnset,
		hcclWorldRankID:             c.WorldRank,
		hcclJobID:                   c.JobID,
		hcclExecTimeOut:             -1, // as the environment says
		hcclQos:                     configUnset,
		hcclSymWinMaxMemSizePerRank: uint64(cmp.Or(c.WindowGiB, abi.HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE)),
		hcclChannelSqDepth:          configUnset,
	}
	*(*configHead)(unsafe.Pointer(&e.reserved)) = configHead{uint64(form.size), abi.HCCL_COMM_CONFIG_MAGIC_WORD, form.version}
	if c.Timeout != 0 {
		e.hcclExecTimeOut = int32(max(c.Timeout, 0) / time.Second)
	}
	if c.QoS != nil {
		e.hcclQos = uint32(*c.QoS)
	}
	copy(e.hcclAlgo[:], c.Algorithm)
	if c.Retry != nil {
		enable, params := c.Retry.texts()
		copy(e.hcclRetryEnable[:], enable)
		copy(e.hcclRetryParams[:], params)
	}
	if c.BufferMiB > 0 {
		e.hcclBufferSize = uint32(c.BufferMiB)
	}
	if c.TrafficClass != nil {
		e.hcclRdmaTrafficClass = uint32(*c.TrafficClass)
	}
	if c.ServiceLevel != nil {
		e.hcclRdmaServiceLevel = uint32(*c.ServiceLevel)
	}
	copy(e.hcclCommName[:], c.Name)
	copy(e.hcclUdi[:], c.Tag)
	return e, nil
}

// form describes the part of the struct that a release of HCCL reads: its size in bytes, and the version of its newest field.
type form struct {
	size    uintptr
	version uint32
}

// form returns how much of the struct is read by an HCCL with this capability, which counts the settings that it
// knows. It refuses settings that lie beyond.
func (c Config) form(capability uint32) (form, error) {
	lacks := func(field string) (form, error) {
		return form{}, fmt.Errorf("%w: this HCCL has no Config.%s; update CANN or leave it empty", acl.ErrNotSupported, field)
	}
	has := func(setting uint32) bool { return capability > setting }
	switch {
	case !has(abi.HCCL_COMM_CONFIG_COMM_NAME) && c.Name != "":
		return lacks("Name")
	case !has(abi.HCCL_COMM_CONFIG_COMM_NAME) && c.Tag != "":
		return lacks("Tag")
	case !has(abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE) && c.Expansion != ExpandDefault:
		return lacks("Expansion")
	case !has(abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE) && (c.TrafficClass != nil || c.ServiceLevel != nil):
		return lacks("TrafficClass and Config.ServiceLevel")
	case !has(abi.HCCL_COMM_CONFIG_RETRY) && c.Timeout != 0:
		return lacks("Timeout")
	case !has(abi.HCCL_COMM_CONFIG_RETRY) && c.Algorithm != "":
		return lacks("Algorithm")
	case !has(abi.HCCL_COMM_CONFIG_RETRY) && c.Retry != nil:
		return lacks("Retry")
	case !has(abi.HCCL_COMM_CONFIG_RETRY) && (c.JobID != 0 || c.WorldRank != 0):
		return lacks("JobID and Config.WorldRank")
	case !has(abi.HCCL_COMM_CONFIG_BUFFER_NAME) && c.QoS != nil:
		return lacks("QoS")
	case !has(abi.HCCL_COMM_CONFIG_BUFFER_NAME) && c.WindowGiB != 0:
		return lacks("WindowGiB")
	case !has(abi.HCCL_COMM_CONFIG_COMM_NAME):
		return form{unsafe.Offsetof(hcclCommConfig{}.hcclCommName), 1}, nil
	case !has(abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE):
		return form{unsafe.Offsetof(hcclCommConfig{}.hcclOpExpansionMode), 3}, nil
	case !has(abi.HCCL_COMM_CONFIG_RETRY):
		return form{unsafe.Offsetof(hcclCommConfig{}.hcclWorldRankID), 5}, nil
	case !has(abi.HCCL_COMM_CONFIG_BUFFER_NAME):
		return form{2104, 8}, nil // which ends with padding after hcclRetryParams
	}
	// The newest sources have a version 11, which the capability does not show, for one setting of the 950.
	return form{unsafe.Offsetof(hcclCommConfig{}.hcclChannelSqDepth), 10}, nil
}
