package rt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// Health is what the driver measures on a die, beside memory and load.
type Health struct {
	Alarm       uint32   // the worst: 0 none, 1 minor, 2 major, 3 critical
	Faults      []uint32 // their codes
	Corrected   uint32   // errors of a bit of memory since the start
	Uncorrected uint32   // errors of several bits
	Celsius     uint32
	Deciwatts   uint32 // tenths of a watt
}

// BrokenMemory is the driver's code of an error of several bits in memory, which is a critical alarm.
const BrokenMemory = 0x80E01801

const critical = 3

// Health returns the state of a die that the file of CANN_EMU_HEALTH describes. A line has the die's number and what
// differs from a healthy one, such as
//
//	1 alarm=2 fault=0x80e18005 corrected=4 uncorrected=1 celsius=91 deciwatts=3100
//
// Without the file, which is read at each call, all dies are healthy and have a constant temperature.
func (c Config) Health(die int) (Health, error) {
	h := Health{Celsius: 40, Deciwatts: 900}
	text, err := os.ReadFile(c.HealthFile)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if err == nil && len(words) > 0 && words[0] == strconv.Itoa(die) {
			err = h.parse(words[1:])
		}
	}
	if err != nil {
		return h, fmt.Errorf("CANN_EMU_HEALTH=%q: %w", c.HealthFile, err)
	}
	return h, nil
}

func (h *Health) parse(words []string) error {
	var fault uint32
	values := map[string]*uint32{
		"alarm": &h.Alarm, "fault": &fault, "corrected": &h.Corrected, "uncorrected": &h.Uncorrected, "celsius": &h.Celsius, "deciwatts": &h.Deciwatts,
	}
	for _, word := range words {
		name, number, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(number, 0, 32)
		if values[name] == nil || err != nil {
			return fmt.Errorf("%q is not one of alarm, fault, corrected, uncorrected, celsius and deciwatts with = and a number", word)
		}
		*values[name] = uint32(n)
		if name == "fault" {
			h.Faults = append(h.Faults, fault)
		}
	}
	return nil
}

// DescribeFault returns what a fault is, in less than 48 bytes, the shortest buffer that a program may have for it.
func DescribeFault(code uint32) string {
	if code == BrokenMemory {
		return "multi-bit ECC error of on-chip memory"
	}
	return fmt.Sprintf("fault %#x of an emulated device", code)
}

// Card returns the card of a die and the die's place there: cards of Atlas A3 have two.
func (c Config) Card(die int) (card, chip int) {
	if strings.HasPrefix(c.SoC, "Ascend910_93") {
		return die / 2, die % 2
	}
	return die, 0
}

// Machine returns the description of the machine, or why it is unusable.
func (r *Runtime) Machine() (Config, error) { return r.config, r.err }

// Dies returns all devices of the machine, also those that the process does not see.
func (r *Runtime) Dies() []*Device { return r.dies }

// Health returns the state of the device. Memory that failed under a task counts until the device is reset.
func (d *Device) Health() (Health, error) {
	h, err := d.rt.config.Health(d.physical)
	h.Uncorrected += d.broken.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.alarmed {
		h.Alarm, h.Faults = critical, append(h.Faults, BrokenMemory)
	}
	return h, err
}

// suffer notes a fault of the hardware in a task of the context. Tasks that a reset still waits for raise no
// alarm: the device has given up their primary context.
func (d *Device) suffer(c *Context, f *Fault) {
	if f.Code != int32(abi.ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR) {
		return
	}
	d.broken.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.primary || c == d.primary {
		d.alarmed = true
	}
}

// MemoryUse returns the bytes of the device's memory that are allocated, and all.
func (d *Device) MemoryUse() (used, total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory == nil {
		return 0, uint64(d.rt.config.Memory)
	}
	free, total := d.memory.info()
	return total - free, total
}

// Load returns in how many percent of the time since the last question a stream of the device computed or copied. An
// answer is kept for a tenth of a second. The first one is 0, since the time of tasks is taken from then on only.
func (d *Device) Load() uint32 { return d.meter.percent() }

// meter measures the time in which at least one of several tasks runs.
type meter struct {
	on atomic.Bool

	mu      sync.Mutex
	running int
	since   time.Time     // when running became 1
	busy    time.Duration // before that
	asked   time.Time     // last
	before  time.Duration // busy at that time
	answer  uint32
}

// answerKept is the time for which an answer of a meter holds.
const answerKept = 100 * time.Millisecond

// begin notes that a task starts. It returns false if the meter is off, and otherwise end must follow.
func (m *meter) begin(t *Task) bool {
	if !m.on.Load() || t.Wait != nil || t.Host {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running++; m.running == 1 {
		m.since = time.Now()
	}
	return true
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running--; m.running == 0 {
		m.busy += time.Since(m.since)
	}
}

func (m *meter) percent() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, busy := time.Now(), m.busy
	if m.running > 0 {
		busy += now.Sub(m.since)
	}
	if !m.on.Swap(true) {
		m.asked = now
	}
	if passed := now.Sub(m.asked); passed >= answerKept {
		m.answer = uint32(min(100, (busy-m.before)*100/passed))
		m.asked, m.before = now, busy
	}
	return m.answer
}
