package dcmi

import "github.com/goascend/cann/internal/emu/rt"

// The functions of the driver's second interface are those of the first for a device with one number, the logical one.

// at returns the place of a device; -1, -1 is none.
func (l *Library) at(device int32) (card, chip int32) {
	if device < 0 || int(device) >= len(l.rt.Dies()) {
		return -1, -1
	}
	return l.place(int(device))
}

func (l *Library) dcmiv2Init() error { return l.dcmiInit() }

func (l *Library) dcmiv2GetDeviceList(deviceList, deviceNum rt.Out[int32], listLen int32) error {
	n := len(l.rt.Dies())
	switch {
	case !l.ready.Load():
		return notReady
	case listLen <= 0 || int(listLen) < n:
		return invalid
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	deviceList.Fill(all)
	deviceNum.Set(int32(n))
	return nil
}

func (l *Library) dcmiv2GetAllDeviceCount(allDeviceCount rt.Out[int32]) error {
	if !l.ready.Load() {
		return notReady
	}
	allDeviceCount.Set(int32(len(l.rt.Dies())))
	return nil
}

func (l *Library) dcmiv2GetDcmiVersion(dcmiVer rt.Out[byte], bufSize uint32) error {
	return l.dcmiGetDcmiVersion(dcmiVer, int32(min(bufSize, 1<<20)))
}

func (l *Library) dcmiv2GetChipPhyIdByDevId(devID int32, phyid rt.Out[uint32]) error {
	return l.mapped(uint32(devID), phyid)
}

func (l *Library) dcmiv2GetDevIdByChipPhyId(phyid int32, devID rt.Out[uint32]) error {
	return l.mapped(uint32(phyid), devID)
}

// dcmiv2SubscribeFaultEvent subscribes to the events of a device, or of all with -1.
func (l *Library) dcmiv2SubscribeFaultEvent(devID int32, filter eventFilter, handler rt.Address) error {
	card, chip := l.at(devID)
	if card < 0 && devID != -1 && l.ready.Load() { // the first interface takes that for all devices
		return invalid
	}
	return l.dcmiSubscribeFaultEvent(card, chip, filter, handler)
}

func (l *Library) dcmiv2GetDeviceType(devID int32, deviceType rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceType(card, chip, deviceType)
}

func (l *Library) dcmiv2GetDevicePcieInfo(devID int32, pcieInfo rt.Out[pcie]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDevicePcieInfoV2(card, chip, pcieInfo)
}

func (l *Library) dcmiv2GetDeviceChipInfo(devID int32, chipInfo rt.Out[chipInfoV2]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceChipInfoV2(card, chip, chipInfo)
}

func (l *Library) dcmiv2GetDevicePowerInfo(devID int32, power rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDevicePowerInfo(card, chip, power)
}

func (l *Library) dcmiv2GetDeviceHealth(devID int32, health rt.Out[uint32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceHealth(card, chip, health)
}

func (l *Library) dcmiv2GetDeviceErrorCodeList(devID int32, errorCount rt.Out[int32], errorCodeList rt.Out[uint32], listLen uint32) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceErrorcodeV2(card, chip, errorCount, errorCodeList, listLen)
}

func (l *Library) dcmiv2GetDeviceTemperature(devID int32, temperature rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceTemperature(card, chip, temperature)
}

func (l *Library) dcmiv2GetDeviceVoltage(devID int32, voltage rt.Out[uint32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceVoltage(card, chip, voltage)
}

func (l *Library) dcmiv2GetDeviceEccInfo(devID int32, inputType int32, deviceEccInfo rt.Out[ecc]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceEccInfo(card, chip, inputType, deviceEccInfo)
}

func (l *Library) dcmiv2GetDeviceFrequency(devID int32, inputType int32, frequency rt.Out[uint32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceFrequency(card, chip, inputType, frequency)
}

func (l *Library) dcmiv2GetDeviceHbmInfo(devID int32, hbmInfo rt.Out[hbm]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceHbmInfo(card, chip, hbmInfo)
}

func (l *Library) dcmiv2GetDeviceUtilizationRate(devID int32, inputType int32, utilizationRate rt.Out[uint32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceUtilizationRate(card, chip, inputType, utilizationRate)
}

func (l *Library) dcmiv2GetDeviceMultiUtilizationRate(devID int32, utilInfo rt.Out[use]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceMultiUtilizationRate(card, chip, utilInfo)
}

func (l *Library) dcmiv2GetDeviceMultiUtilizationRatePeriod(devID int32, utilInfo rt.Out[use], period int32) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceMultiUtilizationRatePeriod(card, chip, utilInfo, period)
}

func (l *Library) dcmiv2GetDeviceNetworkHealth(devID int32, result rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceNetworkHealth(card, chip, result)
}

func (l *Library) dcmiv2GetDeviceBootStatus(devID int32, bootStatus rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceBootStatus(card, chip, bootStatus)
}

func (l *Library) dcmiv2GetDeviceDieId(devID int32, inputType int32, dieID rt.Out[serial]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceDieV2(card, chip, inputType, dieID)
}

func (l *Library) dcmiv2GetDeviceProcMemInfo(devID int32, procInfo rt.Out[process], procNum rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceResourceInfo(card, chip, procInfo, procNum)
}

func (l *Library) dcmiv2GetDeviceBoardInfo(devID int32, boardInfo rt.Out[board]) error {
	card, chip := l.at(devID)
	return l.dcmiGetDeviceBoardInfo(card, chip, boardInfo)
}

func (l *Library) dcmiv2GetMainboardId(devID int32, mainboardID rt.Out[uint32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetMainboardId(card, chip, mainboardID)
}

func (l *Library) dcmiv2GetAffinityCpuInfoByDevId(devID int32, affinityCPU rt.Out[byte], length rt.Out[int32]) error {
	card, chip := l.at(devID)
	return l.dcmiGetAffinityCpuInfoByDeviceId(card, chip, affinityCPU, length)
}

func (l *Library) dcmiv2GetDeviceElabelInfo(devID int32, elabelInfo rt.Out[elabel]) error {
	card, _ := l.at(devID)
	return l.dcmiGetCardElabelV2(card, elabelInfo)
}
