package dcmi

import "github.com/goascend/cann/internal/emu/rt"

// takes is how a function of the second interface takes the arguments of the first one's.
type takes int

const (
	same   takes = iota // the same arguments
	device              // a device in place of a card and the device's place there
	card                // a device in place of a card
)

// second lists the functions of the driver's second interface that call a function of the first one. The second interface names a device
// by its logical number alone. Its other functions are methods.
var second = map[string]struct {
	first string
	takes
}{
	"dcmiv2_init":                                     {"dcmi_init", same},
	"dcmiv2_get_affinity_cpu_info_by_dev_id":          {"dcmi_get_affinity_cpu_info_by_device_id", device},
	"dcmiv2_get_chip_phy_id_by_dev_id":                {"dcmi_get_device_phyid_from_logicid", same},
	"dcmiv2_get_dev_id_by_chip_phy_id":                {"dcmi_get_device_logicid_from_phyid", same},
	"dcmiv2_get_device_board_info":                    {"dcmi_get_device_board_info", device},
	"dcmiv2_get_device_boot_status":                   {"dcmi_get_device_boot_status", device},
	"dcmiv2_get_device_chip_info":                     {"dcmi_get_device_chip_info_v2", device},
	"dcmiv2_get_device_die_id":                        {"dcmi_get_device_die_v2", device},
	"dcmiv2_get_device_ecc_info":                      {"dcmi_get_device_ecc_info", device},
	"dcmiv2_get_device_elabel_info":                   {"dcmi_get_card_elabel_v2", card},
	"dcmiv2_get_device_error_code_list":               {"dcmi_get_device_errorcode_v2", device},
	"dcmiv2_get_device_frequency":                     {"dcmi_get_device_frequency", device},
	"dcmiv2_get_device_hbm_info":                      {"dcmi_get_device_hbm_info", device},
	"dcmiv2_get_device_health":                        {"dcmi_get_device_health", device},
	"dcmiv2_get_device_multi_utilization_rate":        {"dcmi_get_device_multi_utilization_rate", device},
	"dcmiv2_get_device_multi_utilization_rate_period": {"dcmi_get_device_multi_utilization_rate_period", device},
	"dcmiv2_get_device_network_health":                {"dcmi_get_device_network_health", device},
	"dcmiv2_get_device_pcie_info":                     {"dcmi_get_device_pcie_info_v2", device},
	"dcmiv2_get_device_power_info":                    {"dcmi_get_device_power_info", device},
	"dcmiv2_get_device_proc_mem_info":                 {"dcmi_get_device_resource_info", device},
	"dcmiv2_get_device_temperature":                   {"dcmi_get_device_temperature", device},
	"dcmiv2_get_device_type":                          {"dcmi_get_device_type", device},
	"dcmiv2_get_device_utilization_rate":              {"dcmi_get_device_utilization_rate", device},
	"dcmiv2_get_device_voltage":                       {"dcmi_get_device_voltage", device},
	"dcmiv2_get_mainboard_id":                         {"dcmi_get_mainboard_id", device},
}

// Interfaces returns the functions of both interfaces that the package emulates, by C name.
func (l *Library) Interfaces() map[string]rt.Func {
	all := l.Functions()
	for name, s := range second {
		all[name] = l.byDevice(all[s.first], s.takes)
	}
	return all
}

// byDevice returns a function of the second interface.
func (l *Library) byDevice(first rt.Func, t takes) rt.Func {
	if t == same {
		return first
	}
	return func(thread *rt.Thread, args []uint64) uint64 {
		on, place := l.at(int32(args[0]))
		at := []uint64{uint64(uint32(on)), uint64(uint32(place))}
		if t == card {
			at = at[:1]
		}
		return first(thread, append(at, args[1:]...))
	}
}

// at returns the place of a device; -1, -1 is none.
func (l *Library) at(device int32) (card, chip int32) {
	if device < 0 || int(device) >= len(l.rt.Dies()) {
		return -1, -1
	}
	return l.place(int(device))
}

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

// dcmiv2GetDcmiVersion takes the size of its buffer without a sign.
func (l *Library) dcmiv2GetDcmiVersion(dcmiVer rt.Out[byte], bufSize uint32) error {
	return l.dcmiGetDcmiVersion(dcmiVer, bufSize)
}

// dcmiv2SubscribeFaultEvent subscribes to the events of a device, or of all with -1.
func (l *Library) dcmiv2SubscribeFaultEvent(devID int32, filter eventFilter, handler rt.Address) error {
	card, chip := l.at(devID)
	if card < 0 && devID != -1 && l.ready.Load() { // the first interface takes that for all devices
		return invalid
	}
	return l.dcmiSubscribeFaultEvent(card, chip, filter, handler)
}
