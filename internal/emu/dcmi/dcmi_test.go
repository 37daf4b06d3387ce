package dcmi_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/dcmi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is an emulated process with the functions of the driver, and a file for the health of its devices.
type process struct {
	*rttest.Process
	file   string
	thread *rt.Thread
}

func start(t *testing.T, c rt.Config) process {
	c.HealthFile = filepath.Join(t.TempDir(), "health")
	p := process{rttest.NewMachine(t, c), c.HealthFile, new(rt.Thread)}
	p.Add(dcmi.New(p.Runtime).Interfaces())
	return p
}

func (p process) ail(t *testing.T, text string) {
	require.NoError(t, os.WriteFile(p.file, []byte(text), 0o600))
}

// word asks for a number about a device of the place card, chip.
func (p process) word(name string, args ...uint64) int32 {
	return int32(p.Out(p.thread, name, len(args), args...))
}

var (
	machine = rt.Config{Devices: 4, Memory: 64 << 20, SoC: "Ascend910B1"}
	cards   = rt.Config{Devices: 3, Memory: 64 << 20, SoC: "Ascend910_9391"} // of two dies
)

// TestPlaces: the devices of the machine have the driver's numbers, and those of a card with two dies.
func TestPlaces(t *testing.T) {
	t.Setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
	p := start(t, cards)
	list, n := make([]int32, 8), new(int32)
	ask := func(length uint64) int32 {
		return p.Call(p.thread, "dcmi_get_card_list", rttest.Address(n), rttest.Address(&list[0]), length)
	}
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_REDAY, ask(8))
	require.EqualValues(t, abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST, p.Call(p.thread, "dcmi_get_card_id_device_id_from_logicid", rttest.Address(n), rttest.Address(n), 0))
	p.Must(p.thread, "dcmi_init")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, ask(1))
	require.Zero(t, ask(8))
	require.EqualValues(t, 2, *n)
	require.Equal(t, []int32{0, 1, 0}, list[:3])
	for card, dies := range []int32{2, 1} {
		most, mcu, cpu := new(int32), new(int32), new(int32)
		p.Must(p.thread, "dcmi_get_device_id_in_card", uint64(card), rttest.Address(most), rttest.Address(mcu), rttest.Address(cpu))
		require.Equal(t, []int32{dies, -1, -1}, []int32{*most, *mcu, *cpu})
	}
	for logic, place := range [][2]int32{{0, 0}, {0, 1}, {1, 0}} {
		card, chip := new(int32), new(int32)
		p.Must(p.thread, "dcmi_get_card_id_device_id_from_logicid", rttest.Address(card), rttest.Address(chip), uint64(logic))
		require.Equal(t, place, [2]int32{*card, *chip})
		require.EqualValues(t, logic, p.Out(p.thread, "dcmi_get_device_logic_id", 0, uint64(*card), uint64(*chip)))
	}
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_health", 1, 1, rttest.Address(n)))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_health", 0, 0, 0))
	require.EqualValues(t, abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST, p.Call(p.thread, "dcmi_get_card_id_device_id_from_logicid", rttest.Address(n), rttest.Address(n), 3))
	require.Zero(t, p.thread.LastError, "the driver is no part of the runtime")
}

// TestReadings: a device is well until the file names a fault.
func TestReadings(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	require.EqualValues(t, 0, p.word("dcmi_get_device_health", 2, 0))
	require.EqualValues(t, 40, p.word("dcmi_get_device_temperature", 2, 0))
	p.ail(t, "1 alarm=1\n2 alarm=2 fault=0x80e18005 fault=17 corrected=4 uncorrected=3 celsius=91 deciwatts=3105\n")
	require.EqualValues(t, 2, p.word("dcmi_get_device_health", 2, 0))
	require.EqualValues(t, 91, p.word("dcmi_get_device_temperature", 2, 0))
	require.EqualValues(t, 3105, p.word("dcmi_get_device_power_info", 2, 0))
	require.EqualValues(t, 0, p.word("dcmi_get_device_health", 3, 0))
	count, list := new(int32), make([]uint32, 4)
	codes := func(length uint64) int32 {
		return p.Call(p.thread, "dcmi_get_device_errorcode_v2", 2, 0, rttest.Address(count), rttest.Address(&list[0]), length)
	}
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, codes(1))
	require.Zero(t, codes(4))
	require.EqualValues(t, 2, *count)
	require.Equal(t, []uint32{0x80e18005, 17, 0, 0}, list)
	text := make([]byte, 256)
	p.Must(p.thread, "dcmi_get_device_errorcode_string", 2, 0, 17, rttest.Address(&text[0]), 256)
	require.Contains(t, string(text), "0x11")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_errorcode_string", 2, 0, 17, rttest.Address(&text[0]), 47))

	ecc := make([]uint32, 8)
	ecc[7] = 99 // behind the record
	p.Must(p.thread, "dcmi_get_device_ecc_info", 2, 0, abi.DCMI_DEVICE_TYPE_HBM, rttest.Address(&ecc[0]))
	require.Equal(t, []uint32{1, 4, 3, 4, 3, 0, 3, 99}, ecc)
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_SUPPORT, p.Call(p.thread, "dcmi_get_device_ecc_info", 2, 0, abi.DCMI_DEVICE_TYPE_DDR, rttest.Address(&ecc[0])))
	require.EqualValues(t, abi.DCMI_ERR_CODE_INVALID_PARAMETER, p.Call(p.thread, "dcmi_get_device_ecc_info", 2, 0, 6, rttest.Address(&ecc[0])))

	p.ail(t, "2 alarm=2 colour=blue\n")
	require.EqualValues(t, abi.DCMI_ERR_CODE_INNER_ERR, p.Call(p.thread, "dcmi_get_device_health", 2, 0, rttest.Address(count)))
	require.Contains(t, rttest.Text(p.thread), `"colour=blue"`)
}

// TestMemory: the driver reports the memory that the program has.
func TestMemory(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	hbm := make([]uint64, 5)
	hbm[4] = 99
	read := func() (all, used uint64) {
		p.Must(p.thread, "dcmi_get_device_hbm_info", 1, 0, rttest.Address(&hbm[0]))
		require.EqualValues(t, 99, hbm[4])
		require.EqualValues(t, 40, hbm[3], "temperature")
		return hbm[0], hbm[2]
	}
	all, used := read()
	require.Equal(t, []uint64{64, 0}, []uint64{all, used})
	p.Must(p.thread, "aclrtSetDevice", 1)
	p.Out(p.thread, "aclrtMalloc", 0, 16<<20, 0)
	all, used = read()
	require.Equal(t, []uint64{64, 18}, []uint64{all, used}, "with the 32 bytes that aclrtMalloc adds")
	require.EqualValues(t, 28, p.word("dcmi_get_device_utilization_rate", 1, 0, abi.DCMI_UTILIZATION_RATE_HBM))
	require.EqualValues(t, 0, p.word("dcmi_get_device_utilization_rate", 1, 0, abi.DCMI_UTILIZATION_RATE_HBM_BANDWIDTH))
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_SUPPORT, p.Call(p.thread, "dcmi_get_device_utilization_rate", 1, 0, abi.DCMI_UTILIZATION_RATE_DDR, rttest.Address(&hbm[0])))
}

// TestDDR: a 310P reports its memory as DDR, as monitors ask it, and other chips have none.
func TestDDR(t *testing.T) {
	memory := make([]uint64, 15)
	memory[14] = 99 // behind the record of 112 bytes
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	require.EqualValues(t, abi.DCMI_ERR_CODE_NOT_SUPPORT, p.Call(p.thread, "dcmi_get_device_memory_info_v3", 1, 0, rttest.Address(&memory[0])))
	p = start(t, rt.Config{Devices: 1, Memory: 64 << 20, SoC: "Ascend310P3"})
	p.Must(p.thread, "dcmi_init")
	p.Must(p.thread, "aclrtSetDevice", 0)
	p.Out(p.thread, "aclrtMalloc", 0, 16<<20, 0)
	p.Must(p.thread, "dcmi_get_device_memory_info_v3", 0, 0, rttest.Address(&memory[0]))
	require.Equal(t, []uint64{64, 46, 99}, []uint64{memory[0], memory[1], memory[14]})
	require.EqualValues(t, 28, uint32(memory[6]), "per cent")
}

// TestLoad: a device is busy while a stream of it runs tasks, and idle while a stream waits.
func TestLoad(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	p.Must(p.thread, "aclrtSetDevice", 1)
	s, code := p.Runtime.Stream(p.thread, p.Stream(p.thread))
	require.Zero(t, code)
	load := func() int32 {
		return p.word("dcmi_get_device_utilization_rate", 1, 0, abi.DCMI_UTILIZATION_RATE_AICORE)
	}
	require.Zero(t, load())
	end := make(chan struct{})
	p.Submit(p.thread, s.Handle(), func() error { <-end; return nil })
	// The time before the task began counts in the first answers.
	require.Eventually(t, func() bool { return load() > 90 }, time.Minute, 10*time.Millisecond)
	require.Zero(t, p.word("dcmi_get_device_utilization_rate", 0, 0, abi.DCMI_UTILIZATION_RATE_AICORE), "another device")
	close(end)
	p.Must(p.thread, "aclrtSynchronizeStream", s.Handle())
	end = make(chan struct{})
	require.Zero(t, p.Runtime.Submit(p.thread, s, rt.Task{Name: "wait", Wait: func(<-chan struct{}) error { <-end; return nil }}))
	require.Eventually(t, func() bool { return load() == 0 }, time.Minute, 10*time.Millisecond)
	close(end)
	p.Must(p.thread, "aclrtSynchronizeStream", s.Handle())
}

// TestBrokenMemory: a task that had an error of memory raises an alarm until the device is reset.
func TestBrokenMemory(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	p.Must(p.thread, "aclrtSetDevice", 1)
	s := p.Stream(p.thread)
	for _, code := range []int32{abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, abi.ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR} {
		require.Zero(t, p.word("dcmi_get_device_health", 1, 0))
		p.Submit(p.thread, s, func() error { return &rt.Fault{Code: code} })
		require.Equal(t, code, p.Call(p.thread, "aclrtSynchronizeStream", s))
	}
	require.EqualValues(t, 3, p.word("dcmi_get_device_health", 1, 0))
	require.Zero(t, p.word("dcmi_get_device_health", 0, 0))
	count, list, text, ecc := new(int32), make([]uint32, 4), make([]byte, 256), make([]uint32, 7)
	p.Must(p.thread, "dcmi_get_device_errorcode_v2", 1, 0, rttest.Address(count), rttest.Address(&list[0]), 4)
	require.EqualValues(t, 1, *count)
	p.Must(p.thread, "dcmi_get_device_errorcode_string", 1, 0, uint64(list[0]), rttest.Address(&text[0]), 256)
	require.Contains(t, string(text), "multi-bit ECC")
	p.Must(p.thread, "aclrtResetDevice", 1)
	require.Zero(t, p.word("dcmi_get_device_health", 1, 0))
	p.Must(p.thread, "dcmi_get_device_ecc_info", 1, 0, abi.DCMI_DEVICE_TYPE_HBM, rttest.Address(&ecc[0]))
	require.EqualValues(t, 1, ecc[2], "it was counted")
}

// TestBrokenMemoryWhileResetting: a reset waits for queued work. An alarm of what begins on the device meanwhile is not
// ended by the reset, and the work that it waits for leaves none.
func TestBrokenMemoryWhileResetting(t *testing.T) {
	p := start(t, machine)
	p.Must(p.thread, "dcmi_init")
	broken := &rt.Fault{Code: abi.ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR}
	for _, again := range []bool{true, false} {
		p.Must(p.thread, "aclrtSetDevice", 1)
		gate, reset := make(chan struct{}), make(chan int32)
		p.Submit(p.thread, p.Stream(p.thread), func() error { <-gate; return broken })
		go func() { reset <- p.Call(new(rt.Thread), "aclrtResetDevice", 1) }()
		require.Eventually(t, func() bool {
			flags, active := new(uint32), new(int32)
			p.Must(p.thread, "aclrtGetPrimaryCtxState", 1, rttest.Address(flags), rttest.Address(active))
			return *active == 0
		}, time.Minute, time.Millisecond)
		other := new(rt.Thread)
		var want int32
		if again {
			want = 3
			p.Must(other, "aclrtSetDevice", 1)
			s := p.Stream(other)
			p.Submit(other, s, func() error { return broken })
			require.EqualValues(t, broken.Code, p.Call(other, "aclrtSynchronizeStream", s))
		}
		require.Equal(t, want, p.word("dcmi_get_device_health", 1, 0))
		close(gate)
		require.Zero(t, <-reset)
		require.Equal(t, want, p.word("dcmi_get_device_health", 1, 0))
		if again {
			p.Must(other, "aclrtResetDevice", 1)
		}
	}
}
