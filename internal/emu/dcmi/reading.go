package dcmi

import (
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// ecc is dcmi_ecc_info.
type ecc struct {
	enabled              int32
	single, double       uint32 // errors of one bit and of several
	allSingle, allDouble uint32 // in the memory's life
	_, doublePages       uint32 // taken out; the first is reserved
}

// hbm is dcmi_hbm_info.
type hbm struct {
	size      uint64 // MiB
	megahertz uint32
	used      uint64 // MiB
	celsius   int32
	_         uint32 // use of the bandwidth, not emulated
}

// health returns what the driver measures on a device.
func (l *Library) health(card, chip int32) (rt.Health, error) {
	d, err := l.device(card, chip)
	if err != nil {
		return rt.Health{}, err
	}
	return d.Health()
}

func (l *Library) dcmiGetDeviceHealth(cardID, deviceID int32, health rt.Out[uint32]) error {
	h, err := l.health(cardID, deviceID)
	if err == nil {
		health.Set(h.Alarm)
	}
	return err
}

func (l *Library) dcmiGetDeviceErrorcodeV2(cardID, deviceID int32, errorCount rt.Out[int32], errorCodeList rt.Out[uint32], listLen uint32) error {
	h, err := l.health(cardID, deviceID)
	switch {
	case err != nil:
		return err
	case listLen == 0 || uint64(listLen) < uint64(len(h.Faults)):
		return invalid
	}
	errorCodeList.Fill(h.Faults)
	errorCount.Set(int32(len(h.Faults)))
	return nil
}

// shortestText is the smallest buffer for the description of a fault.
const shortestText = 48

func (l *Library) dcmiGetDeviceErrorcodeString(cardID, deviceID int32, errorCode uint32, errorInfo rt.Out[uint8], bufSize int32) error {
	if bufSize < shortestText {
		return invalid
	}
	if _, err := l.device(cardID, deviceID); err != nil {
		return err
	}
	errorInfo.Fill(append([]byte(rt.DescribeFault(errorCode)), 0))
	return nil
}

func (l *Library) dcmiGetDeviceTemperature(cardID, deviceID int32, temperature rt.Out[int32]) error {
	h, err := l.health(cardID, deviceID)
	if err == nil {
		temperature.Set(int32(h.Celsius))
	}
	return err
}

func (l *Library) dcmiGetDevicePowerInfo(cardID, deviceID int32, power rt.Out[int32]) error {
	h, err := l.health(cardID, deviceID)
	if err == nil {
		power.Set(int32(h.Deciwatts))
	}
	return err
}

func (l *Library) dcmiGetDeviceUtilizationRate(cardID, deviceID, inputType int32, utilizationRate rt.Out[uint32]) error {
	d, err := l.device(cardID, deviceID)
	if err != nil {
		return err
	}
	switch inputType {
	case abi.DCMI_UTILIZATION_RATE_AICORE, abi.DCMI_UTILIZATION_RATE_VECTORCORE, abi.DCMI_UTILIZATION_RATE_NPU:
		utilizationRate.Set(d.Load())
	case abi.DCMI_UTILIZATION_RATE_HBM:
		used, all := d.MemoryUse()
		utilizationRate.Set(uint32(used * 100 / all))
	case abi.DCMI_UTILIZATION_RATE_AICPU, abi.DCMI_UTILIZATION_RATE_CTRLCPU, abi.DCMI_UTILIZATION_RATE_HBM_BANDWIDTH:
		utilizationRate.Set(0)
	default:
		return unknown
	}
	return nil
}

// ddr is dcmi_get_memory_info_stru.
type ddr struct {
	size, available uint64 // MiB
	megahertz       uint32
	_               [3]uint64 // huge pages of the device's system, not emulated
	use             uint32    // per cent
	_               [60]uint8
}

// dcmiGetDeviceMemoryInfoV3 reports the memory of chips that have DDR; the others have it on the chip alone.
func (l *Library) dcmiGetDeviceMemoryInfoV3(cardID, deviceID int32, memoryInfo rt.Out[ddr]) error {
	d, err := l.device(cardID, deviceID)
	if err != nil {
		return err
	}
	if name, _ := l.chip(); !strings.HasPrefix(name, "310P") {
		return unknown
	}
	used, all := d.MemoryUse()
	memoryInfo.Set(ddr{size: all >> 20, available: (all - used) >> 20, megahertz: MemoryMegahertz, use: uint32(100 * used / max(all, 1))})
	return nil
}

func (l *Library) dcmiGetDeviceHbmInfo(cardID, deviceID int32, hbmInfo rt.Out[hbm]) error {
	d, err := l.device(cardID, deviceID)
	if err != nil {
		return err
	}
	h, err := d.Health()
	if err != nil {
		return err
	}
	used, all := d.MemoryUse()
	hbmInfo.Set(hbm{size: all >> 20, megahertz: MemoryMegahertz, used: used >> 20, celsius: int32(h.Celsius)})
	return nil
}

func (l *Library) dcmiGetDeviceEccInfo(cardID, deviceID, inputType int32, deviceEccInfo rt.Out[ecc]) error {
	if inputType < abi.DCMI_DEVICE_TYPE_DDR || inputType > abi.DCMI_HBM_RECORDED_MULTI_ADDR {
		return invalid
	}
	h, err := l.health(cardID, deviceID)
	switch {
	case err != nil:
		return err
	case inputType != abi.DCMI_DEVICE_TYPE_HBM:
		return unknown
	}
	deviceEccInfo.Set(ecc{enabled: 1, single: h.Corrected, double: h.Uncorrected, allSingle: h.Corrected, allDouble: h.Uncorrected, doublePages: h.Uncorrected})
	return nil
}
