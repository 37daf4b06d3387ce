package dcmi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestSecondInterface: a device with one number answers what the first interface answers for its card and place.
func TestSecondInterface(t *testing.T) {
	p := start(t, cards) // devices 0 and 1 are on card 0, device 2 is on card 1
	list, n := make([]int32, 8), new(int32)
	ask := func(length uint64) int32 {
		return p.Call(p.thread, "dcmiv2_get_device_list", rttest.Address(&list[0]), rttest.Address(n), length)
	}
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_REDAY, ask(8))
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_REDAY, p.Call(p.thread, "dcmiv2_get_device_health", 0, rttest.Address(n)))
	p.Must(p.thread, "dcmiv2_init")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(2))
	require.Zero(t, ask(8))
	require.Equal(t, []int32{0, 1, 2}, list[:*n])
	require.EqualValues(t, 3, p.word("dcmiv2_get_all_device_count"))
	p.ail(t, "1 alarm=2 fault=0x7 celsius=77 deciwatts=1000\n2 alarm=1 celsius=55\n")
	places := [][2]uint64{{0, 0}, {0, 1}, {1, 0}}
	for device, place := range places {
		one := uint64(device)
		for second, first := range map[string]string{
			"get_device_type": "get_device_type", "get_device_health": "get_device_health", "get_device_temperature": "get_device_temperature",
			"get_device_power_info": "get_device_power_info", "get_device_voltage": "get_device_voltage", "get_device_network_health": "get_device_network_health",
			"get_device_boot_status": "get_device_boot_status", "get_mainboard_id": "get_mainboard_id",
		} {
			require.Equal(t, p.word("dcmi_"+first, place[0], place[1]), p.word("dcmiv2_"+second, one), "%s of device %d", second, device)
			require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmiv2_"+second, 3, rttest.Address(n)), second)
		}
		for second, r := range map[string]struct {
			first string
			size  int
		}{
			"get_device_chip_info": {"get_device_chip_info_v2", 132}, "get_device_pcie_info": {"get_device_pcie_info_v2", 64}, "get_device_board_info": {"get_device_board_info", 16},
			"get_device_hbm_info": {"get_device_hbm_info", 32},
		} {
			require.Equal(t, p.record(t, r.size, "dcmi_"+r.first, place[0], place[1]), p.record(t, r.size, "dcmiv2_"+second, one), "%s of device %d", second, device)
		}
		require.Equal(t, p.record(t, 20, "dcmi_get_device_die_v2", place[0], place[1], 1), p.record(t, 20, "dcmiv2_get_device_die_id", one, 1))
		require.Equal(t, p.record(t, 28, "dcmi_get_device_ecc_info", place[0], place[1], 2), p.record(t, 28, "dcmiv2_get_device_ecc_info", one, 2))
		require.Equal(t, p.record(t, 1280, "dcmi_get_card_elabel_v2", place[0]), p.record(t, 1280, "dcmiv2_get_device_elabel_info", one))
		require.EqualValues(t, device, p.word("dcmiv2_get_chip_phy_id_by_dev_id", one))
		require.EqualValues(t, device, p.word("dcmiv2_get_dev_id_by_chip_phy_id", one))
		for second, first := range map[string]string{"get_device_proc_mem_info": "get_device_resource_info", "get_affinity_cpu_info_by_dev_id": "get_affinity_cpu_info_by_device_id"} {
			a, b, m := make([]byte, 512), make([]byte, 512), new(int32)
			p.Must(p.thread, "dcmi_"+first, place[0], place[1], rttest.Address(&a[0]), rttest.Address(n))
			p.Must(p.thread, "dcmiv2_"+second, one, rttest.Address(&b[0]), rttest.Address(m))
			require.Equal(t, *n, *m, second)
			require.Equal(t, a, b, second)
		}
		require.Equal(t, p.word("dcmi_get_device_utilization_rate", place[0], place[1], 6), p.word("dcmiv2_get_device_utilization_rate", one, 6))
		require.EqualValues(t, 1600, p.word("dcmiv2_get_device_frequency", one, abi.DCMI_FREQ_HBM))
	}
	require.EqualValues(t, 77, p.word("dcmiv2_get_device_temperature", 1))
	codes := make([]uint32, 8)
	p.Must(p.thread, "dcmiv2_get_device_error_code_list", 1, rttest.Address(n), rttest.Address(&codes[0]), 8)
	require.Equal(t, []uint32{7}, codes[:*n])
	require.EqualValues(t, abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST, p.Call(p.thread, "dcmiv2_get_chip_phy_id_by_dev_id", 3, rttest.Address(n)))
	filter := make([]uint64, 6)
	for _, device := range []int{3, -2} {
		require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmiv2_subscribe_fault_event", uint64(device), rttest.Address(&filter[0]), 1))
	}
}
