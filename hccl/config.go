package hccl

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var getCapability = cshim.NewFunc(cshim.HCCL, "HcclGetCommConfigCapability")

// Determinism says whether reductions repeat bit for bit.
type Determinism uint32

// Degrees of determinism. Atlas A2 alone has Strict, which also fixes the order of additions.
const (
	DeterminismUnset Determinism = iota // as HCCL_DETERMINISTIC says
	NotDeterministic
	Deterministic
	Strict
)

// Expansion is who turns a collective into tasks of the device.
type Expansion uint32

// Expansion modes of HCCL 8.1; a chip has some of them.
const (
	ExpandDefault Expansion = iota
	ExpandOnHost
	ExpandOnAICPU
	ExpandOnVectorCores
)

// Config is how a communicator is made (HcclCommConfig). The zero value leaves everything to
// the environment and to HCCL. All ranks give the same.
type Config struct {
	// Name is unique among the communicators of a device, at most 127 bytes; HCCL makes one up
	// when it is empty.
	Name string
	// Tag appears in HCCL's logs, at most 127 bytes.
	Tag string
	// BufferMiB is the size of each of the communicator's two buffers on the device; 0 takes
	// HCCL_BUFFSIZE, or 200.
	BufferMiB int
	// Determinism of this communicator's reductions.
	Determinism Determinism
	// Expansion of this communicator's collectives.
	Expansion Expansion
	// TrafficClass (a multiple of 4 up to 252) and ServiceLevel (0 to 7) of RoCE; nil takes
	// HCCL's, which are 132 and 4.
	TrafficClass, ServiceLevel *int
}

// Offsets in HcclCommConfig of CANN 8.1, and the size of what older ones have.
const (
	configMagic       = 8
	configBuffer      = 24
	configDeterminism = 28
	configName        = 32
	configTag         = 160
	configExpansion   = 288
	configTraffic     = 292
	configService     = 296
	configSize        = 300

	configUnset = uint32(abi.HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET)
)

func (c Config) check() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrArgument}, args...)...)
	}
	for name, text := range map[string]string{"Name": c.Name, "Tag": c.Tag} {
		if len(text) > configTag-configName-1 {
			return refuse("Config.%s has %d bytes; at most %d are possible", name, len(text), configTag-configName-1)
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

// encode makes the C struct, as long as this HCCL knows it.
func (c Config) encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var call cshim.Call
	capability, err := call.Value(getCapability, 0)
	if err != nil {
		return nil, err
	}
	size, err := c.size(uint32(capability))
	if err != nil {
		return nil, err
	}
	b := make([]byte, configSize)
	le := binary.LittleEndian
	le.PutUint64(b, uint64(size))
	le.PutUint32(b[configMagic:], abi.HCCL_COMM_CONFIG_MAGIC_WORD)
	le.PutUint32(b[configMagic+4:], abi.HCCL_COMM_CONFIG_VERSION)
	for at, v := range map[int]*int{configTraffic: c.TrafficClass, configService: c.ServiceLevel} {
		if v == nil {
			v = new(int(configUnset))
		}
		le.PutUint32(b[at:], uint32(*v))
	}
	le.PutUint32(b[configBuffer:], configUnset)
	if c.BufferMiB > 0 {
		le.PutUint32(b[configBuffer:], uint32(c.BufferMiB))
	}
	le.PutUint32(b[configDeterminism:], uint32(c.Determinism)-1) // unset is all ones
	le.PutUint32(b[configExpansion:], uint32(c.Expansion))
	copy(b[configName:], c.Name)
	copy(b[configTag:], c.Tag)
	return b[:size], nil
}

// size is how much of the struct an HCCL reads that answers capability, and refuses what lies
// behind it.
func (c Config) size(capability uint32) (int, error) {
	lacks := func(field string) error {
		return fmt.Errorf("%w: this HCCL has no Config.%s; update CANN or leave it empty", ErrUnsupported, field)
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
		return configName, nil
	case capability <= abi.HCCL_COMM_CONFIG_OP_EXPANSION_MODE:
		return configExpansion, nil
	}
	return configSize, nil
}
