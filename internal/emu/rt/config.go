package rt

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/soc"
	"github.com/goascend/cann/internal/emu/knob"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Config describes the emulated machine.
type Config struct {
	Devices    int    // number of devices
	Memory     int64  // device memory in bytes, per device
	SoC        string // chip name, as aclrtGetSocName returns it
	API        string // older version of CANN whose ways are emulated, "" for the newest
	Faults     *Faults
	Sanitize   sanitize.Config
	PlainCube  bool   // float32 products stay float32, whatever cubeMathType says
	HealthFile string // with the faults of devices, see Health
	Trace      string // file for the trace, "" for no trace; %p is replaced by the process id
	Schedule   string // file for the schedule, "" for none: then nothing is computed
}

// ConfigFromEnv reads CANN_EMU_API, CANN_EMU_DEVICES, CANN_EMU_MEMORY (bytes, or with suffix K, M, G),
// CANN_EMU_SOC, CANN_EMU_CUBE, CANN_EMU_FAULTS with CANN_EMU_FAULT_SEED, CANN_EMU_SANITIZE, CANN_EMU_HEALTH,
// CANN_EMU_TRACE and CANN_EMU_SCHEDULE. The default is 8 devices of an Ascend910B1, each with the memory of the chip but
// not more than this machine has, rounded down to whole huge pages.
func ConfigFromEnv() (Config, error) {
	c := Config{Devices: 8, SoC: "Ascend910B1", API: knob.Get("CANN_EMU_API")}
	if releases := abi.Releases(); c.API != "" && !slices.Contains(releases[:len(releases)-1], c.API) {
		return c, fmt.Errorf("CANN_EMU_API=%q: the releases of CANN are %s", c.API, strings.Join(releases[:len(releases)-1], ", "))
	}
	if err := knob.Unknown(os.Environ()); err != nil {
		return c, err
	}
	if v := knob.Get("CANN_EMU_SOC"); v != "" {
		c.SoC = v
		if !strings.HasPrefix(v, "Ascend") {
			c.SoC = "Ascend" + v
		}
	}
	chip, err := soc.Named(c.SoC)
	if err != nil {
		return c, fmt.Errorf("CANN_EMU_SOC: %w", err)
	}
	if v := knob.Get("CANN_EMU_DEVICES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 64 {
			return c, fmt.Errorf("CANN_EMU_DEVICES=%q: must be a number from 0 to 64", v)
		}
		c.Devices = n // only now: the machine is made in spite of an error, which its first call returns
	}
	c.Memory = min(chip.Memory, machineMemory()/pageUnit*pageUnit)
	if v := knob.Get("CANN_EMU_MEMORY"); v != "" {
		if c.Memory, err = parseSize(v); err != nil {
			return c, fmt.Errorf("CANN_EMU_MEMORY=%q: %w", v, err)
		}
	}
	switch v := knob.Get("CANN_EMU_CUBE"); v {
	case "":
	case "float32":
		c.PlainCube = true
	default:
		return c, fmt.Errorf("CANN_EMU_CUBE=%q: float32 is the only value; without it products round as cubeMathType says", v)
	}
	var seed uint64
	if v := knob.Get("CANN_EMU_FAULT_SEED"); v != "" {
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			return c, fmt.Errorf("CANN_EMU_FAULT_SEED=%q: must be a number", v)
		}
	}
	if c.Sanitize, err = sanitize.Parse(knob.Get("CANN_EMU_SANITIZE")); err != nil {
		return c, err
	}
	c.Faults, err = ParseFaults(knob.Get("CANN_EMU_FAULTS"), seed)
	if err != nil {
		return c, err
	}
	c.Trace, c.HealthFile, c.Schedule = knob.Get("CANN_EMU_TRACE"), knob.Get("CANN_EMU_HEALTH"), knob.Get("CANN_EMU_SCHEDULE")
	return c, c.unscheduled()
}

// parseSize reads a number of bytes with an optional binary suffix.
func parseSize(s string) (int64, error) {
	shift := 0
	for i, suffix := range []string{"K", "M", "G"} {
		if n, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			s, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > 1<<(46-shift) {
		return 0, fmt.Errorf("must be a positive number of bytes, with an optional suffix K, M or G")
	}
	return n << shift, nil
}

func machineMemory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 8 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}
