package ccl

import (
	"bytes"
	"encoding/binary"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Offsets in HcclCommConfig.
const (
	configSize      = 300
	configMagic     = 8
	configBuffer    = 24
	configRepeat    = 28
	configName      = 32
	configUDI       = 160
	configExpansion = 288
	configTraffic   = 292
	configService   = 296

	nameSize = 128
	unset    = uint32(abi.HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET)
)

// config holds the fields of an HcclCommConfig that this emulator uses.
type config struct{ name string }

// configHead is the common start of all versions of the struct.
type configHead struct {
	size  uint64
	magic uint32
	_     uint32 // version
}

// commConfig is C's HcclCommConfig.
type commConfig [configSize]byte

// HcclCommConfigInit does what HCCL's header does inline.
func (l *Library) HcclCommConfigInit(config *commConfig) {
	var b commConfig
	le := binary.LittleEndian
	le.PutUint64(b[0:], configSize)
	le.PutUint32(b[configMagic:], abi.HCCL_COMM_CONFIG_MAGIC_WORD)
	le.PutUint32(b[configMagic+4:], abi.HCCL_COMM_CONFIG_VERSION)
	for _, at := range []int{configBuffer, configRepeat, configTraffic, configService} {
		le.PutUint32(b[at:], unset)
	}
	if config != nil {
		*config = b
	}
}

// readConfig reads the configuration at an address. The struct starts with its length: a
// caller built against an older header has a shorter struct, and the additional fields of a
// newer one are ignored.
//
//npugen:decode HcclCommConfig
func readConfig(function string, addr uint64) (config, error) {
	if addr == 0 {
		return config{}, null(function, "config")
	}
	le := binary.LittleEndian
	head := rt.In[configHead](addr).Get()
	if head.magic != abi.HCCL_COMM_CONFIG_MAGIC_WORD {
		return config{}, refuse(badParameter, "EI0003: %s: the configuration has no magic word; initialise it with HcclCommConfigInit", function)
	}
	size := head.size
	if size < configName {
		return config{}, refuse(badParameter, "EI0003: %s: a configuration of %d bytes; it has at least %d", function, size, configName)
	}
	b := make([]byte, configSize)
	for _, at := range []int{configBuffer, configRepeat, configTraffic, configService} {
		le.PutUint32(b[at:], unset)
	}
	copy(b, rt.In[byte](addr).Slice(min(size, configSize)))
	field := func(at int) uint32 { return le.Uint32(b[at:]) }
	switch {
	case field(configBuffer) == 0:
		return config{}, refuse(badParameter, "EI0003: %s: hcclBufferSize is 0; at least 1 MB is needed", function)
	case field(configRepeat) > 2 && field(configRepeat) != unset:
		return config{}, refuse(badParameter, "EI0003: %s: hcclDeterministic is %d; 0, 1 or 2 are possible", function, field(configRepeat))
	case field(configTraffic) != unset && (field(configTraffic) > 255 || field(configTraffic)%4 != 0):
		return config{}, refuse(badParameter, "EI0003: %s: hcclRdmaTrafficClass is %d; a multiple of 4 up to 252 is possible", function, field(configTraffic))
	case field(configService) != unset && field(configService) > 7:
		return config{}, refuse(badParameter, "EI0003: %s: hcclRdmaServiceLevel is %d; 0 to 7 are possible", function, field(configService))
	case field(configExpansion) > 6:
		return config{}, refuse(badParameter, "EI0003: %s: hcclOpExpansionMode is %d; 0 to 6 are possible", function, field(configExpansion))
	}
	name, _, ended := bytes.Cut(b[configName:configUDI], []byte{0})
	if !ended {
		return config{}, refuse(badParameter, "EI0003: %s: hcclCommName has no end in %d bytes", function, nameSize)
	}
	return config{name: string(name)}, nil
}
