package hccl

import (
	"fmt"
	"strings"
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

// Expansion modes of HCCL 8.1. Each chip supports only some of them.
const (
	ExpandDefault Expansion = iota
	ExpandOnHost
	ExpandOnAICPU
	ExpandOnVectorCores
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
	for name, text := range map[string]string{"Name": c.Name, "Tag": c.Tag} {
		if len(text) > maxName {
			return refuse("Config.%s has %d bytes; at most %d are possible", name, len(text), maxName)
		}
		if strings.ContainsRune(text, 0) {
			return refuse("Config.%s has a NUL byte", name)
		}
	}
	switch t, s := c.TrafficClass, c.ServiceLevel; {
	case c.BufferMiB < 0 || int64(c.BufferMiB) >= int64(configUnset):
		return refuse("Config.BufferMiB is %d", c.BufferMiB)
	case c.Determinism > Strict:
		return refuse("Config.Determinism is %d", c.Determinism)
	case c.Expansion > ExpandOnVectorCores:
		return refuse("Config.Expansion is %d", c.Expansion)
	case t != nil && (*t < 0 || *t > 252 || *t%4 != 0):
		return refuse("Config.TrafficClass is %d; a multiple of 4 up to 252 is possible", *t)
	case s != nil && (*s < 0 || *s > 7):
		return refuse("Config.ServiceLevel is %d; 0 to 7 are possible", *s)
	}
	return nil
}

// encode makes the C struct, with the size that the loaded HCCL reads.
func (c Config) encode() (*hcclCommConfig, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	capability, err := hcclGetCommConfigCapability(0)
	if err != nil {
		return nil, err
	}
	size, err := c.size(capability)
	if err != nil {
		return nil, err
	}
	e := &hcclCommConfig{
		hcclBufferSize:       configUnset,
		hcclDeterministic:    uint32(c.Determinism) - 1, // DeterminismUnset becomes all ones
		hcclOpExpansionMode:  uint32(c.Expansion),
		hcclRdmaTrafficClass: configUnset,
		hcclRdmaServiceLevel: configUnset,
	}
	*(*configHead)(unsafe.Pointer(&e.reserved)) = configHead{uint64(size), abi.HCCL_COMM_CONFIG_MAGIC_WORD, abi.HCCL_COMM_CONFIG_VERSION}
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

// size returns how many bytes of the struct are read by an HCCL with this capability. It refuses
// settings that lie beyond.
func (c Config) size(capability uint32) (uintptr, error) {
	lacks := func(field string) error {
		return fmt.Errorf("%w: this HCCL has no Config.%s; update CANN or leave it empty", acl.ErrNotSupported, field)
	}
	switch {
	case capability <= abi.HCCL_COMM_CONFIG_COMM_NAME && c.Name != "":
		return 0, lacks("Name")
	case capability <= abi.HCCL_COMM_CONFIG_COMM_NAME && c.Tag != "":
		return 0, lacks("Tag")
	case capability <= abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE && c.Expansion != ExpandDefault:
		return 0, lacks("Expansion")
	case capability <= abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE && (c.TrafficClass != nil || c.ServiceLevel != nil):
		return 0, lacks("TrafficClass and Config.ServiceLevel")
	case capability <= abi.HCCL_COMM_CONFIG_COMM_NAME:
		return unsafe.Offsetof(hcclCommConfig{}.hcclCommName), nil
	case capability <= abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE:
		return unsafe.Offsetof(hcclCommConfig{}.hcclOpExpansionMode), nil
	}
	return unsafe.Sizeof(hcclCommConfig{}), nil
}
