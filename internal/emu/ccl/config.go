package ccl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Offsets in HcclCommConfig.
const (
	configBuffer    = 24
	configRepeat    = 28
	configName      = 32
	configUDI       = 160
	configExpansion = 288
	configTraffic   = 292
	configService   = 296
	configZeroCopy  = 312
	configExecute   = 316
	configAlgorithm = 320
	configRetry     = 1920
	configRetryHow  = 1970
	configShared    = 2098
	configQoS       = 2228
	configWindows   = 2232
	configSize      = 2248

	nameSize = 128
	unset    = uint32(abi.HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET)
)

// layout describes the part of HcclCommConfig that the HCCL of a release reads.
type layout struct {
	version    uint32 // of the newest field
	size       uint64
	capability uint32 // what HcclGetCommConfigCapability returns
}

// layoutOf returns the layout of a release, "" for the newest sources.
func layoutOf(release string) layout {
	switch release {
	case abi.V81RC1:
		return layout{5, 300, abi.HCCL_COMM_CONFIG_WORLD_RANKID}
	case abi.V850:
		return layout{8, 2104, abi.HCCL_COMM_CONFIG_BUFFER_NAME}
	case "", abi.Unreleased:
		return layout{11, configSize, abi.HCCL_COMM_CONFIG_RESERVED}
	}
	return layout{10, 2240, abi.HCCL_COMM_CONFIG_RESERVED}
}

// config holds the fields of an HcclCommConfig that change what this emulator does. Its buffers are nobody's: communicators that share some by a
// name (hcclBufferName) compute the same.
type config struct {
	name    string
	execute *time.Duration // how long a collective waits for a peer, 0 for ever; nil for HCCL_EXEC_TIMEOUT
	windows uint64         // bytes that each rank reserves for windows of memory
}

// defaults is the configuration of a communicator that has only a name.
func defaults(name string) config {
	return config{name: name, windows: abi.HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE << 30}
}

// configHead is the common start of all versions of the struct.
type configHead struct {
	size           uint64
	magic, version uint32
}

// readConfig reads the configuration at an address. Its head says how long it is and up to which version its fields
// have a meaning: a program of an older header has fewer fields, and those that this HCCL does not know yet are ignored.
//
//npugen:decode HcclCommConfig
func (l *Library) readConfig(function string, addr uint64) (config, error) {
	if addr == 0 {
		return config{}, null(function, "config")
	}
	le := binary.LittleEndian
	head := rt.In[configHead](addr).Get()
	if head.magic != abi.HCCL_COMM_CONFIG_MAGIC_WORD {
		return config{}, refuse(badParameter, "EI0003: %s: the configuration has no magic word; initialise it with HcclCommConfigInit", function)
	}
	if head.size < configName {
		return config{}, refuse(badParameter, "EI0003: %s: a configuration of %d bytes; it has at least %d", function, head.size, configName)
	}
	b := make([]byte, configSize)
	for _, at := range []int{configBuffer, configRepeat, configTraffic, configService, configExecute, configQoS} {
		le.PutUint32(b[at:], unset)
	}
	le.PutUint64(b[configWindows:], abi.HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE)
	known := layoutOf(l.rt.API())
	copy(b, rt.In[byte](addr).Slice(min(head.size, known.size)))
	version := min(head.version, known.version)
	field := func(at int) uint32 { return le.Uint32(b[at:]) }
	cfg := defaults("")
	wrong := func(format string, args ...any) (config, error) {
		return config{}, refuse(badParameter, "EI0003: %s: %s", function, fmt.Sprintf(format, args...))
	}
	switch {
	case field(configBuffer) == 0:
		return wrong("hcclBufferSize is 0; at least 1 MB is needed")
	case field(configRepeat) > 2 && field(configRepeat) != unset:
		return wrong("hcclDeterministic is %d; 0, 1 or 2 are possible", field(configRepeat))
	case field(configRepeat) == 2 && !strings.HasPrefix(l.rt.SoC(), "Ascend910B"):
		return wrong("hcclDeterministic is 2 (strict), which only Atlas A2 has")
	case field(configTraffic) != unset && (field(configTraffic) > 255 || field(configTraffic)%4 != 0):
		return wrong("hcclRdmaTrafficClass is %d; a multiple of 4 up to 252 is possible", field(configTraffic))
	case field(configService) != unset && field(configService) > 7:
		return wrong("hcclRdmaServiceLevel is %d; 0 to 7 are possible", field(configService))
	case field(configExpansion) > 6:
		return wrong("hcclOpExpansionMode is %d; 0 to 6 are possible", field(configExpansion))
	}
	cfg.name = text(b, configName, nameSize)
	for _, f := range []struct {
		name     string
		at, size int
		since    uint32
	}{
		{"hcclCommName", configName, nameSize, 0}, {"hcclUdi", configUDI, nameSize, 0}, {"hcclAlgo", configAlgorithm, configRetry - configAlgorithm, 8},
		{"hcclRetryEnable", configRetry, configRetryHow - configRetry, 8}, {"hcclRetryParams", configRetryHow, configShared - configRetryHow, 8},
		{"hcclBufferName", configShared, nameSize, 9},
	} {
		if version >= f.since && bytes.IndexByte(b[f.at:][:f.size], 0) < 0 {
			return wrong("%s has no end in %d bytes", f.name, f.size)
		}
	}
	if version >= 7 && b[configZeroCopy] > 1 {
		return wrong("aclGraphZeroCopyEnable is %d; 0 or 1 are possible", b[configZeroCopy])
	}
	if version >= 8 {
		if n := field(configExecute); n != unset {
			if n > math.MaxInt32 {
				return wrong("hcclExecTimeOut is %d; 0 to 2147483647 s are possible (HCCL logs a warning and waits as HCCL_EXEC_TIMEOUT says)", int32(n))
			}
			if wait := time.Duration(n) * time.Second; !l.is950() { // the 950 waits as the environment says
				cfg.execute = &wait
			}
		}
		algorithm := text(b, configAlgorithm, configRetry-configAlgorithm)
		if err := checkAlgorithm(algorithm); err != nil {
			return wrong("hcclAlgo is %q: %v", algorithm, err)
		}
		levels := text(b, configRetry, configRetryHow-configRetry)
		if !retryLevels(levels) {
			return wrong("hcclRetryEnable is %q; it has the form \"L1:0, L2:1\" (HCCL logs a warning and retries nothing)", levels)
		}
		how := text(b, configRetryHow, configShared-configRetryHow)
		if !retryNumbers(how) {
			return wrong("hcclRetryParams is %q; it has the form \"MaxCnt:3, HoldTime:5000, IntervalTime:1000\" with 1 to 10 times and 0 to 60000 ms", how)
		}
	}
	if version >= 10 {
		if q := field(configQoS); q != unset && q > 7 {
			return wrong("hcclQos is %d; 0 to 7 are possible", q)
		}
		gib := le.Uint64(b[configWindows:])
		if gib == 0 || gib > math.MaxUint64>>30 {
			return wrong("hcclSymWinMaxMemSizePerRank is %d GB; 1 to %d are possible", gib, uint64(math.MaxUint64>>30))
		}
		cfg.windows = gib << 30
	}
	return cfg, nil
}

// text returns the string in a field of size bytes.
func text(b []byte, at, size int) string {
	first, _, _ := bytes.Cut(b[at:][:size], []byte{0})
	return string(first)
}

// Names in hcclAlgo and HCCL_ALGO.
var (
	algorithmLevels = []string{"level0", "level1", "level2", "level3"}
	algorithms      = []string{"null", "ring", "pipeline", "fullmesh", "H-D_R", "pairwise", "NHR", "NHR_V1", "AHC", "AHC_BROKE", "NB", "NA"}
	algorithmCalls  = []string{"others", "broadcast", "allreduce", "reduce", "send", "receive", "allgather", "reducescatter", "alltoall", "gather", "scatter", "sendrecv"}
)

// checkAlgorithm refuses what HCCL cannot read as the algorithm of each level, of all calls or by call:
// "level0:NA;level1:ring" or "allreduce=level0:NA;level1:ring/others=level0:NA;level1:NHR".
func checkAlgorithm(s string) error {
	s = strings.ReplaceAll(s, " ", "")
	if s == "" {
		return nil
	}
	calls := strings.Split(s, "/")
	for _, one := range calls {
		call, levels, named := strings.Cut(one, "=")
		switch {
		case !named && len(calls) > 1:
			return fmt.Errorf("either one text for all calls, or call=… for each; %q is neither", one)
		case !named:
			levels = one
		case !slices.Contains(algorithmCalls, call):
			return fmt.Errorf("%q is none of %v", call, algorithmCalls)
		}
		seen := map[string]bool{}
		for level := range strings.SplitSeq(levels, ";") {
			place, algorithm, _ := strings.Cut(level, ":")
			switch {
			case !slices.Contains(algorithmLevels, place) || seen[place]:
				return fmt.Errorf("%q: each of %v at most once", level, algorithmLevels)
			case !slices.Contains(algorithms, algorithm):
				return fmt.Errorf("%q: the algorithms are %v", level, algorithms)
			}
			seen[place] = true
		}
	}
	return nil
}

// retryLevels reports whether HCCL can read a text as which levels are retried.
func retryLevels(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	seen := map[string]bool{}
	for one := range strings.SplitSeq(s, ",") {
		level, on, _ := strings.Cut(one, ":")
		if s != "" && (!slices.Contains([]string{"L0", "L1", "L2"}, level) || seen[level] || on != "0" && on != "1") {
			return false
		}
		seen[level] = true
	}
	return true
}

// retryNumbers reports whether HCCL can read a text as how often and when it retries.
func retryNumbers(s string) bool {
	if s == "" {
		return true
	}
	var count, hold, interval uint32
	n, _ := fmt.Sscanf(s, "MaxCnt:%d, HoldTime:%d, IntervalTime:%d", &count, &hold, &interval)
	return n == 3 && count >= 1 && count <= 10 && hold <= 60000 && interval <= 60000
}
