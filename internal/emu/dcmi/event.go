package dcmi

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// eventFilter is dcmi_event_filter. The conditions that its flags name must all hold.
type eventFilter struct {
	flags              uint64
	id                 uint32
	severity, nodeType uint8
	_                  [32]byte
}

// faultEvent is dcmi_event with a dcmi_dms_fault_event.
type faultEvent struct {
	kind                                   int32
	_                                      int32
	id                                     uint32
	device                                 uint16
	nodeType, _, _, _, severity, assertion uint8 // node, type and number of the part are 0
	serial, notice                         int32
	raised                                 uint64 // milliseconds since 1970
	name                                   [256]byte
	_                                      [32 + 32]byte
}

const eventSize = 360

var _ = [1]struct{}{}[eventSize-unsafe.Sizeof(faultEvent{})]

// What an event is about.
const (
	recovered = 0
	occurred  = 1
)

// watch has the subscriptions of a process. One goroutine looks at the health of the devices while there are
// some, until stop.
type watch struct {
	mu         sync.Mutex
	subscribed []subscription
	serials    int32
	stop       chan struct{}
	done       chan struct{}
}

// subscription is a function of the program for the events of devices.
type subscription struct {
	dies    []int
	filter  eventFilter
	handler uintptr
}

// period is how often the health of devices is looked at.
const period = 20 * time.Millisecond

// dcmiSubscribeFaultEvent calls handler, on a thread of the library, for each fault of the devices that occurs or goes
// after the call; card and device -1 are all devices.
func (l *Library) dcmiSubscribeFaultEvent(cardID, deviceID int32, filter eventFilter, handler rt.Address) error {
	var dies []int
	switch die, err := l.die(cardID, deviceID); {
	case cardID == -1 && deviceID == -1 && l.ready.Load():
		for i := range l.rt.Dies() {
			dies = append(dies, i)
		}
	case err != nil:
		return err
	default:
		dies = []int{die}
	}
	const known = abi.DCMI_EVENT_FILTER_FLAG_EVENT_ID | abi.DCMI_EVENT_FILTER_FLAG_SERVERITY | abi.DCMI_EVENT_FILTER_FLAG_NODE_TYPE
	if filter.flags&^uint64(known) != 0 {
		return invalid
	}
	faults, err := l.faults()
	if err != nil {
		return err
	}
	w := &l.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribed = append(w.subscribed, subscription{dies, filter, uintptr(handler)})
	if w.stop == nil {
		w.stop, w.done = make(chan struct{}), make(chan struct{})
		go l.look(faults, w.stop, w.done)
	}
	return nil
}

// faults returns the faults of each device, with the device's alarm.
func (l *Library) faults() (all []rt.Health, err error) {
	for _, d := range l.rt.Dies() {
		h, err := d.Health()
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// look sends events until stop. While the file of CANN_EMU_HEALTH cannot be read, as in the middle of a change, the
// devices keep their state.
func (l *Library) look(was []rt.Health, stop, done chan struct{}) {
	defer close(done)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now, err := l.faults()
		if err != nil {
			continue
		}
		for die := range now {
			for _, code := range now[die].Faults {
				if !slices.Contains(was[die].Faults, code) {
					l.send(die, code, now[die].Alarm, occurred)
				}
			}
			for _, code := range was[die].Faults {
				if !slices.Contains(now[die].Faults, code) {
					l.send(die, code, was[die].Alarm, recovered)
				}
			}
		}
		was = now
	}
}

// send calls the functions that want an event.
func (l *Library) send(die int, code, severity uint32, assertion uint8) {
	w := &l.watch
	w.mu.Lock()
	w.serials++
	serial := w.serials
	subscribed := slices.Clone(w.subscribed)
	w.mu.Unlock()
	e := faultEvent{
		kind: abi.DCMI_DMS_FAULT_EVENT, id: code, device: uint16(die), severity: uint8(severity), assertion: assertion,
		serial: serial, notice: serial, raised: uint64(time.Now().UnixMilli()),
	}
	copy(e.name[:], rt.DescribeFault(code))
	for _, s := range subscribed {
		if !slices.Contains(s.dies, die) || !s.filter.wants(e) {
			continue
		}
		at := rt.Malloc(eventSize)
		rt.Write(uint64(uintptr(at)), e)
		rt.Call(s.handler, uintptr(at))
		rt.Free(at)
	}
}

func (f eventFilter) wants(e faultEvent) bool {
	return (f.flags&abi.DCMI_EVENT_FILTER_FLAG_EVENT_ID == 0 || f.id == e.id) &&
		(f.flags&abi.DCMI_EVENT_FILTER_FLAG_SERVERITY == 0 || e.severity >= f.severity) &&
		(f.flags&abi.DCMI_EVENT_FILTER_FLAG_NODE_TYPE == 0 || e.nodeType == f.nodeType)
}

// Close ends the subscriptions. The driver's library has them until the process ends.
func (l *Library) Close() error {
	w := &l.watch
	w.mu.Lock()
	stop, done := w.stop, w.done
	w.stop, w.subscribed = nil, nil
	w.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	return nil
}
