package dcmi_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// record asks for a record about a device and returns its bytes, of which the last is behind it.
func (p process) record(t *testing.T, size int, name string, args ...uint64) []byte {
	t.Helper()
	b := make([]byte, size+1)
	b[size] = 0xa5
	p.Must(p.thread, name, append(args, rttest.Address(&b[0]))...)
	require.EqualValues(t, 0xa5, b[size], "%s writes behind its record", name)
	return b[:size]
}

func word(b []byte, at int) uint32 { return *(*uint32)(unsafe.Pointer(&b[at])) }

func line(b []byte) string { s, _, _ := strings.Cut(string(b), "\x00"); return s }

// TestBoard compares what the library reports of a device with the machine, by the offsets of the public header.
func TestBoard(t *testing.T) {
	for name, c := range map[string]struct {
		config rt.Config
		chip   string
		board  uint32
	}{"910B1": {machine, "910B1", 0}, "A3": {cards, "910_9391", 0xb0}} {
		t.Run(name, func(t *testing.T) {
			p := start(t, c.config)
			require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_REDAY, p.Call(p.thread, "dcmi_get_device_num_in_card", 0, rttest.Address(new(int32))))
			p.Must(p.thread, "dcmi_init")
			chip := p.record(t, 132, "dcmi_get_device_chip_info_v2", 1, 0)
			require.Equal(t, "Ascend", line(chip))
			require.Equal(t, c.chip, line(chip[32:]))
			require.Equal(t, "V1", line(chip[64:]))
			require.Positive(t, word(chip, 96), "cores")
			require.Equal(t, c.chip, line(chip[100:]))
			require.Equal(t, chip[:100], p.record(t, 100, "dcmi_get_device_chip_info", 1, 0))
			require.Equal(t, c.board, word(p.record(t, 16, "dcmi_get_device_board_info", 1, 0), 0))
			require.Len(t, p.record(t, 64, "dcmi_get_device_pcie_info_v2", 1, 0), 64)
			require.NotEqual(t, p.record(t, 20, "dcmi_get_device_die_v2", 0, 0, 1), p.record(t, 20, "dcmi_get_device_die_v2", 1, 0, 1))
			require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_die_v2", 0, 0, 2, rttest.Address(new([5]uint32))))
			require.Equal(t, "EMULATED0001", line(p.record(t, 1280, "dcmi_get_card_elabel_v2", 1)[1024:]))
			for name, want := range map[string]int32{
				"dcmi_get_device_type": 0, "dcmi_get_device_boot_status": 3, "dcmi_get_device_voltage": 80, "dcmi_get_device_network_health": 6, "dcmi_get_mainboard_id": 0,
			} {
				require.Equal(t, want, p.word(name, 1, 0), name)
				require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, name, 9, 0, rttest.Address(new(int32))), name)
			}
			for die := range uint64(c.config.Devices) {
				require.EqualValues(t, die, p.word("dcmi_get_device_phyid_from_logicid", die))
				require.EqualValues(t, die, p.word("dcmi_get_device_logicid_from_phyid", die))
			}
			require.EqualValues(t, abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST, p.Call(p.thread, "dcmi_get_device_logicid_from_phyid", 99, rttest.Address(new(uint32))))
			require.EqualValues(t, 1600, p.word("dcmi_get_device_frequency", 1, 0, abi.DCMI_FREQ_HBM))
			require.Greater(t, p.word("dcmi_get_device_frequency", 1, 0, abi.DCMI_FREQ_AICORE_MAX), int32(1000))
			require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_SUPPORT, p.Call(p.thread, "dcmi_get_device_frequency", 1, 0, 1, rttest.Address(new(uint32))))
			text, n := make([]byte, 64), new(int32)
			p.Must(p.thread, "dcmi_get_affinity_cpu_info_by_device_id", 1, 0, rttest.Address(&text[0]), rttest.Address(n))
			require.Len(t, line(text), int(*n))
			require.True(t, strings.HasPrefix(line(text), "0-"), line(text))
			p.Must(p.thread, "dcmi_get_dcmi_version", rttest.Address(&text[0]), 64)
			require.Equal(t, "emulated", line(text))
			require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_dcmi_version", rttest.Address(&text[0]), 8))
			require.EqualValues(t, 0, p.word("dcmi_get_multi_die_policy"))
		})
	}
}

// TestProcesses: the driver reports the process and the bytes that it allocated, and the use of its cores.
func TestProcesses(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	info, n := make([]uint64, 2), new(int32)
	ask := func() {
		p.Must(p.thread, "dcmi_get_device_resource_info", 0, 0, rttest.Address(&info[0]), rttest.Address(n))
	}
	ask()
	require.Zero(t, *n)
	p.Must(p.thread, "aclrtSetDevice", 0)
	p.Out(p.thread, "aclrtMalloc", 0, 5<<20, 0)
	ask()
	require.EqualValues(t, 1, *n)
	require.EqualValues(t, os.Getpid(), uint32(info[0]))
	require.GreaterOrEqual(t, info[1], uint64(5<<20))
	use := p.record(t, 48, "dcmi_get_device_multi_utilization_rate", 0, 0)
	require.LessOrEqual(t, word(use, 8), uint32(100))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_multi_utilization_rate_period", 0, 0, rttest.Address(&use[0]), 0))
	runtime.KeepAlive(use)
}

// TestSubscriptionsRefused: what a subscription does is a test of the SDK, which has a program with a function for it.
func TestSubscriptionsRefused(t *testing.T) {
	p := start(t, machine)
	filter := make([]uint64, 6)
	ask := func(card, device int, flags, handler uint64) int32 {
		filter[0] = flags
		return p.Call(p.thread, "dcmi_subscribe_fault_event", uint64(card), uint64(device), rttest.Address(&filter[0]), handler)
	}
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_REDAY, ask(-1, -1, 0, 1))
	p.Must(p.thread, "dcmi_init")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(9, 0, 0, 1))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(-1, 0, 0, 1))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(-1, -1, 8, 1))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(-1, -1, 0, 0))
	p.ail(t, "0 colour=blue\n")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INNER_ERR, ask(-1, -1, 0, 1))
}
