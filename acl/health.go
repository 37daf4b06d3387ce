package acl

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Health is the state of a device as its driver's library for management (DCMI) reports it. A number that the
// chip, the driver or the container does not report is -1.
type Health struct {
	Card, Chip  int     // place in the machine, as in npu-smi
	Alarm       Alarm   // the worst
	Faults      []Fault // what the driver has found
	AICore      int     // use of the cores in percent; 0 while a profiler runs
	MemoryUsed  int     // bytes, by all processes and the system
	MemoryTotal int     // bytes
	Bandwidth   int     // use of the memory's bandwidth in percent
	Temperature int     // degrees Celsius
	Power       float64 // watts
	ECC         ECC
	Processes   []Process // that have memory of the device; nil if the driver does not report them
}

// Process is a process that has memory of a device.
type Process struct {
	ID     int // on the host, also where this process runs in a container
	Memory int // bytes
}

// ECC counts errors of a device's memory.
type ECC struct {
	Corrected, Uncorrected           int // since the machine started
	TotalCorrected, TotalUncorrected int // in the life of the memory
	RetiredPages                     int // no longer used after errors that could not be corrected
}

// Fault is a fault that the driver has found.
type Fault struct {
	Code uint32 // such as 0x80E01801
	Text string // "" if the driver does not explain it
}

// Alarm is how severe a device's faults are. From AlarmMajor on the device should get no work.
type Alarm uint32

// Alarms, with the values of dcmi_get_device_health.
const (
	AlarmNone     Alarm = 0
	AlarmMinor    Alarm = 1
	AlarmMajor    Alarm = 2
	AlarmCritical Alarm = 3
	AlarmAbsent   Alarm = 0xFFFFFFFF // the driver does not find the device
)

// String is "none", "minor", "major", "critical" or "absent".
func (a Alarm) String() string {
	switch {
	case a == AlarmAbsent:
		return "absent"
	case a > AlarmCritical:
		return "alarm " + strconv.FormatUint(uint64(a), 10)
	}
	return [...]string{"none", "minor", "major", "critical"}[a]
}

// driver is the driver's library, which takes one call at a time.
var driver struct {
	aside
	ready bool // dcmi_init has succeeded
}

// Health queries the driver for the state of a device (dcmi_get_device_health and others), which need not be open.
// It takes milliseconds. Without the driver's library the error is ErrNotInstalled. If ctx ends first, the
// driver goes on with the query.
func (rt *Runtime) Health(ctx context.Context, device int) (Health, error) {
	const op = "Runtime.Health"
	if err := rt.usable(op); err != nil {
		return Health{}, err
	}
	if ctx == nil {
		return Health{}, noContext(op)
	}
	logic, ok := logicID(device)
	if !ok {
		return Health{}, refuse(op, ErrInvalidArgument, "there is no device %d", device)
	}
	var answer struct {
		Health
		err error
	}
	early, _ := driver.wait(ctx, func() error {
		answer.Health, answer.err = queryDriver(logic)
		return nil
	})
	switch {
	case early:
		e := interrupted(op, ctx)
		e.Device = device
		return Health{}, e
	case answer.err != nil:
		e := wrap(answer.err)
		e.Device = device
		return Health{}, e
	}
	return answer.Health, nil
}

// logicID is the driver's number of a device: CANN numbers the devices of ASCEND_RT_VISIBLE_DEVICES from 0.
func logicID(device int) (logic uint32, ok bool) {
	list, set := os.LookupEnv("ASCEND_RT_VISIBLE_DEVICES")
	if !set || device < 0 {
		return uint32(device), device >= 0 && int(uint32(device)) == device
	}
	all := strings.Split(list, ",")
	if device >= len(all) {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(all[device]), 10, 32)
	return uint32(n), err == nil
}

// unknown reports whether the driver does not have a number, which is no failure.
func unknown(err error) bool {
	var missing *cshim.SymbolError
	code := codeOf(err)
	return code == abi.DCMI_ERR_CODE_NOT_SUPPORT || code == abi.DCMI_ERR_CODE_NOT_SUPPORT_IN_CONTAINER || errors.As(err, &missing)
}

// queryDriver reads the state of a device.
func queryDriver(logic uint32) (h Health, err error) {
	if !driver.ready {
		if err := dcmiInit(0); err != nil {
			return h, err
		}
		driver.ready = true
	}
	card, chip, err := dcmiGetCardIdDeviceIdFromLogicid(0, logic)
	if err != nil {
		return h, err
	}
	alarm, err := dcmiGetDeviceHealth(0, card, chip)
	if err != nil {
		return h, err
	}
	h = Health{
		Card: int(card), Chip: int(chip), Alarm: Alarm(alarm), AICore: -1, MemoryUsed: -1, MemoryTotal: -1, Bandwidth: -1, Temperature: -1, Power: -1,
		ECC: ECC{-1, -1, -1, -1, -1},
	}
	for _, read := range []func(card, chip int32) error{h.readFaults, h.readLoad, h.readMemory, h.readHeat, h.readPower, h.readProcesses} {
		if err := read(card, chip); err != nil && !unknown(err) {
			return h, err
		}
	}
	return h, nil
}

const (
	mostFaults  = 128 // that the driver reports
	longestText = 256 // of a fault's explanation
	mostHolders = 64  // processes that the driver reports of a device
)

func (h *Health) readFaults(card, chip int32) error {
	codes := make([]uint32, mostFaults)
	n, err := dcmiGetDeviceErrorcodeV2(0, card, chip, &codes[0], mostFaults)
	if err != nil {
		return err
	}
	for _, code := range codes[:min(max(n, 0), mostFaults)] {
		text := make([]byte, longestText)
		if dcmiGetDeviceErrorcodeString(0, card, chip, code, &text[0], longestText) != nil {
			text[0] = 0 // the code is enough
		}
		text, _, _ = bytes.Cut(text, []byte{0})
		h.Faults = append(h.Faults, Fault{code, string(text)})
	}
	return nil
}

func (h *Health) readLoad(card, chip int32) error {
	for _, of := range []struct {
		kind int32
		to   *int
	}{{abi.DCMI_UTILIZATION_RATE_AICORE, &h.AICore}, {abi.DCMI_UTILIZATION_RATE_HBM_BANDWIDTH, &h.Bandwidth}} {
		percent, err := dcmiGetDeviceUtilizationRate(0, card, chip, of.kind)
		switch {
		case err == nil:
			*of.to = int(percent)
		case !unknown(err):
			return err
		}
	}
	return nil
}

func (h *Health) readMemory(card, chip int32) error {
	var memory dcmiHbmInfo
	if err := dcmiGetDeviceHbmInfo(0, card, chip, &memory); err == nil {
		h.MemoryUsed, h.MemoryTotal = int(memory.memoryUsage)<<20, int(memory.memorySize)<<20
	} else if !unknown(err) {
		return err
	}
	var ecc dcmiEccInfo
	err := dcmiGetDeviceEccInfo(0, card, chip, abi.DCMI_DEVICE_TYPE_HBM, &ecc)
	if err == nil && ecc.enableFlag != 0 {
		h.ECC = ECC{
			int(ecc.singleBitErrorCnt), int(ecc.doubleBitErrorCnt), int(ecc.totalSingleBitErrorCnt), int(ecc.totalDoubleBitErrorCnt),
			int(ecc.doubleBitIsolatedPagesCnt),
		}
	}
	return err
}

func (h *Health) readHeat(card, chip int32) error {
	celsius, err := dcmiGetDeviceTemperature(0, card, chip)
	if err == nil {
		h.Temperature = int(celsius)
	}
	return err
}

func (h *Health) readPower(card, chip int32) error {
	tenths, err := dcmiGetDevicePowerInfo(0, card, chip)
	if err == nil {
		h.Power = float64(tenths) / 10
	}
	return err
}

func (h *Health) readProcesses(card, chip int32) error {
	var all [mostHolders]dcmiProcMemInfo
	n, err := dcmiGetDeviceResourceInfo(0, card, chip, &all[0])
	if err != nil {
		return err
	}
	h.Processes = []Process{}
	for _, p := range all[:min(max(n, 0), mostHolders)] {
		h.Processes = append(h.Processes, Process{int(p.procId), int(p.procMemUsage)})
	}
	return nil
}
