package dcmi

import (
	"fmt"
	"os"
	"runtime"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/soc"
	"github.com/goascend/cann/internal/emu/rt"
)

// The records of C. text is unsigned char[32].
type (
	text     [32]byte
	chipInfo struct {
		kind, name, version text
		cores               uint32
	}
	chipInfoV2 struct {
		chipInfo
		npuName text
	}
	board struct{ board, _, _, slot uint32 } // PCB and BOM are 0
	pcie  struct {
		vendor, subVendor, device, _ uint32 // the last is the subsystem's device
		_                            int32  // domain
		bus, _, _                    uint32 // slot and function
		_                            [32]byte
	}
	serial struct{ words [5]uint32 }
	elabel struct{ product, model, manufacturer, _, serial [256]byte } // without the day of manufacture
	use    struct {
		cube, vector, cores, npu uint32
		_                        [8]uint32
	}
	process struct {
		id    int32
		bytes uint64
	}
)

func textOf(s string) (t text) {
	copy(t[:len(t)-1], s)
	return t
}

// chip returns the name of the machine's chips without "Ascend", and what they are.
func (l *Library) chip() (string, soc.Chip) {
	c, _ := l.rt.Machine()
	chip, _ := Chip(c) // the machine exists: dcmi_init checked that
	return ChipName(c), chip
}

func (l *Library) dcmiGetCardNumList(cardNum, cardList rt.Out[int32], listLength int32) error {
	return l.dcmiGetCardList(cardNum, cardList, listLength)
}

func (l *Library) dcmiGetDeviceNumInCard(cardID int32, deviceNum rt.Out[int32]) error {
	cards := l.cards()
	switch {
	case !l.ready.Load():
		return notReady
	case cardID < 0 || int(cardID) >= len(cards):
		return invalid
	}
	deviceNum.Set(cards[cardID])
	return nil
}

// The physical numbers of devices are the logical ones: the emulated machine has no containers.
func (l *Library) mapped(from uint32, to rt.Out[uint32]) error {
	if !l.ready.Load() || uint64(from) >= uint64(len(l.rt.Dies())) {
		return missing
	}
	to.Set(from)
	return nil
}

func (l *Library) dcmiGetDevicePhyidFromLogicid(logicid uint32, phyid rt.Out[uint32]) error {
	return l.mapped(logicid, phyid)
}

func (l *Library) dcmiGetDeviceLogicidFromPhyid(phyid uint32, logicid rt.Out[uint32]) error {
	return l.mapped(phyid, logicid)
}

// dcmiGetDcmiVersion reports a version of its own: there is no driver.
func (l *Library) dcmiGetDcmiVersion(dcmiVer rt.Out[byte], bufSize uint32) error {
	return l.say(dcmiVer, int32(min(bufSize, 1<<20)), SoftwareVersion)
}

// say fills a buffer with a text and its end.
func (l *Library) say(to rt.Out[byte], size int32, s string) error {
	if int(size) <= len(s) {
		return invalid
	}
	to.Fill(append([]byte(s), 0))
	return nil
}

func (l *Library) dcmiGetDeviceType(cardID, deviceID int32, deviceType rt.Out[int32]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		deviceType.Set(abi.NPU_TYPE)
	}
	return err
}

func (l *Library) dcmiGetDeviceChipInfo(cardID, deviceID int32, chipInfo rt.Out[chipInfo]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		chipInfo.Set(l.chipInfo())
	}
	return err
}

func (l *Library) chipInfo() chipInfo {
	name, chip := l.chip()
	return chipInfo{textOf(Maker), textOf(name), textOf(ChipVersion), uint32(chip.Cube)}
}

func (l *Library) dcmiGetDeviceChipInfoV2(cardID, deviceID int32, chipInfo rt.Out[chipInfoV2]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		all := l.chipInfo()
		chipInfo.Set(chipInfoV2{all, all.name})
	}
	return err
}

func (l *Library) dcmiGetDeviceBoardInfo(cardID, deviceID int32, boardInfo rt.Out[board]) error {
	die, err := l.die(cardID, deviceID)
	if err != nil {
		return err
	}
	c, _ := l.rt.Machine()
	boardInfo.Set(board{board: Board(c), slot: uint32(die)})
	return nil
}

func (l *Library) dcmiGetMainboardId(cardID, deviceID int32, mainboardID rt.Out[uint32]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		mainboardID.Set(0)
	}
	return err
}

func (l *Library) dcmiGetDeviceBootStatus(cardID, deviceID int32, bootStatus rt.Out[int32]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		bootStatus.Set(abi.DCMI_BOOT_STATUS_FINISH)
	}
	return err
}

func (l *Library) dcmiGetDevicePcieInfoV2(cardID, deviceID int32, pcieInfo rt.Out[pcie]) error {
	die, err := l.die(cardID, deviceID)
	if err == nil {
		pcieInfo.Set(pcie{vendor: Vendor, subVendor: Vendor, device: PCIDevice, bus: Bus(die)})
	}
	return err
}

// dcmiGetDeviceDieV2 gives each die a number of its own, which it has in every process.
func (l *Library) dcmiGetDeviceDieV2(cardID, deviceID, inputType int32, dieID rt.Out[serial]) error {
	die, err := l.die(cardID, deviceID)
	switch {
	case err != nil:
		return err
	case inputType != abi.NDIE && inputType != abi.VDIE:
		return invalid
	}
	dieID.Set(serial{[5]uint32{0xE1000000, uint32(die) + 1, uint32(inputType)}})
	return nil
}

func (l *Library) dcmiGetCardElabelV2(cardID int32, elabelInfo rt.Out[elabel]) error {
	if _, err := l.die(cardID, 0); err != nil {
		return err
	}
	var e elabel
	name, _ := l.chip()
	copy(e.product[:], Product)
	copy(e.model[:], name)
	copy(e.manufacturer[:], Manufacturer)
	copy(e.serial[:], Serial(int(cardID)))
	elabelInfo.Set(e)
	return nil
}

// dcmiGetAffinityCpuInfoByDeviceId: all CPUs are as near to each device.
func (l *Library) dcmiGetAffinityCpuInfoByDeviceId(cardID, deviceID int32, affinityCPU rt.Out[byte], length rt.Out[int32]) error {
	if _, err := l.die(cardID, deviceID); err != nil {
		return err
	}
	s := fmt.Sprintf("0-%d", runtime.NumCPU()-1)
	affinityCPU.Fill(append([]byte(s), 0))
	length.Set(int32(len(s)))
	return nil
}

func (l *Library) dcmiGetDeviceFrequency(cardID, deviceID, inputType int32, frequency rt.Out[uint32]) error {
	if _, err := l.die(cardID, deviceID); err != nil {
		return err
	}
	_, chip := l.chip()
	switch inputType {
	case abi.DCMI_FREQ_HBM:
		frequency.Set(MemoryMegahertz)
	case abi.DCMI_FREQ_AICORE_CURRENT_, abi.DCMI_FREQ_AICORE_MAX, abi.DCMI_FREQ_VECTORCORE_CURRENT:
		frequency.Set(uint32(chip.Megahertz))
	default:
		return unknown
	}
	return nil
}

// dcmiGetDeviceVoltage reports 0.8 V.
func (l *Library) dcmiGetDeviceVoltage(cardID, deviceID int32, voltage rt.Out[uint32]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		voltage.Set(80)
	}
	return err
}

func (l *Library) dcmiGetDeviceMultiUtilizationRate(cardID, deviceID int32, utilInfo rt.Out[use]) error {
	d, err := l.device(cardID, deviceID)
	if err == nil {
		n := d.Load()
		utilInfo.Set(use{cube: n, vector: n, cores: n, npu: n})
	}
	return err
}

// dcmiGetDeviceMultiUtilizationRatePeriod answers for the time since the last question, whatever the period.
func (l *Library) dcmiGetDeviceMultiUtilizationRatePeriod(cardID, deviceID int32, utilInfo rt.Out[use], period int32) error {
	if period <= 0 {
		return invalid
	}
	return l.dcmiGetDeviceMultiUtilizationRate(cardID, deviceID, utilInfo)
}

// dcmiGetDeviceResourceInfo knows this process only. Emulated devices are those of a process.
func (l *Library) dcmiGetDeviceResourceInfo(cardID, deviceID int32, procInfo rt.Out[process], procNum rt.Out[int32]) error {
	d, err := l.device(cardID, deviceID)
	if err != nil {
		return err
	}
	used, _ := d.MemoryUse()
	if used == 0 {
		procNum.Set(0)
		return nil
	}
	procInfo.Set(process{int32(os.Getpid()), used})
	procNum.Set(1)
	return nil
}

// dcmiGetDeviceNetworkHealth: the emulated device has no port of its own, so that no address is watched yet.
func (l *Library) dcmiGetDeviceNetworkHealth(cardID, deviceID int32, result rt.Out[int32]) error {
	_, err := l.die(cardID, deviceID)
	if err == nil {
		result.Set(abi.DCMI_RDFX_DETECT_INIT)
	}
	return err
}

// dcmiGetMultiDiePolicy: containers get both dies of a card.
func (l *Library) dcmiGetMultiDiePolicy(policy rt.Out[int32]) error {
	if !l.ready.Load() {
		return notReady
	}
	policy.Set(abi.DCMI_MULTI_DIE_UNION_POLICY)
	return nil
}
