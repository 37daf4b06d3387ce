package ccl

import (
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libhccl of one process.
type Library struct {
	rt        *rt.Runtime
	remembers bool // the device of a thread: see owner.go
	timeouts  Timeouts
	invalid   error  // environment error that the constructors of communicators return
	unique    string // identifies this process
	host      string

	mu            sync.Mutex
	names         map[place]*comm
	fabrics       map[string]*fabric
	roots         map[string]*root
	groups        map[*rt.Thread]*group
	deterministic int32
	states        []stateCallback // in the order of their registration, each name once

	serving sync.WaitGroup // goroutines of roots, and of listeners that close

	strings [len(texts)]func() uint64
	unknown func() uint64
}

// place is the key of a communicator: a device and a name.
type place struct {
	device int
	name   string
}

// Timeouts bound how long ranks wait for each other.
type Timeouts struct {
	Connect time.Duration // for all ranks to join
	Execute time.Duration // for the peers of a collective; 0 means no limit
}

// TimeoutsFromEnv reads HCCL_CONNECT_TIMEOUT (120 to 7200 s, default 120) and
// HCCL_EXEC_TIMEOUT (0 to 2147483647 s, default 1836). CANN_EMU_CONNECT_TIMEOUT, a Go
// duration, allows tests a shorter wait than HCCL does.
func TimeoutsFromEnv() (Timeouts, error) {
	connect, err := seconds("HCCL_CONNECT_TIMEOUT", 120, 120, 7200)
	if err != nil {
		return Timeouts{}, err
	}
	execute, err := seconds("HCCL_EXEC_TIMEOUT", 1836, 0, 1<<31-1)
	if err != nil {
		return Timeouts{}, err
	}
	if v := knob.Get("CANN_EMU_CONNECT_TIMEOUT"); v != "" {
		if connect, err = time.ParseDuration(v); err != nil || connect <= 0 {
			return Timeouts{}, refuse(badParameter, "EI0001: CANN_EMU_CONNECT_TIMEOUT=%q: must be a duration such as 2s", v)
		}
	}
	return Timeouts{connect, execute}, nil
}

func seconds(name string, unset, lo, hi int) (time.Duration, error) {
	v := knob.Get(name)
	if v == "" {
		return time.Duration(unset) * time.Second, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi || len(v) > 10 {
		return 0, refuse(badParameter, "EI0001: %s=%q: must be a number of seconds from %d to %d", name, v, lo, hi)
	}
	return time.Duration(n) * time.Second, nil
}

// New returns the library for a runtime, with the timeouts of the environment. With
// CANN_EMU_API=8.1.RC1 it remembers the device of a thread as HCCL did then.
func New(r *rt.Runtime) *Library {
	t, err := TimeoutsFromEnv()
	l := NewWithTimeouts(r, t)
	l.invalid = err
	l.remembers = r.API() == abi.V81RC1
	return l
}

// NewWithTimeouts is New with given timeouts.
func NewWithTimeouts(r *rt.Runtime, t Timeouts) *Library {
	l := &Library{
		rt: r, timeouts: t, unique: random(16), host: hostIdentity(),
		names: make(map[place]*comm), fabrics: make(map[string]*fabric), roots: make(map[string]*root), groups: make(map[*rt.Thread]*group),
	}
	r.AtFinalize(l.close)
	for i, s := range texts {
		l.strings[i] = sync.OnceValue(func() uint64 { return rt.NewCString(s) })
	}
	l.unknown = sync.OnceValue(func() uint64 { return rt.NewCString(unknownText) })
	return l
}

// Live returns the number of communicators and the number of root infos whose ranks are still
// joining.
func (l *Library) Live() (comms, roots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names), len(l.roots)
}

// find returns the communicator of a handle.
//
//npugen:decode HcclComm
func (l *Library) find(function string, handle rt.Handle) (*comm, error) {
	if handle == 0 {
		return nil, null(function, "comm")
	}
	c, ok := rt.Lookup[*comm](&l.rt.Handles, handle)
	if !ok {
		return nil, refuse(badParameter, "EI0003: %s: %#x is no live communicator; was it destroyed?", function, handle)
	}
	return c, nil
}

func (l *Library) HcclGetRankSize(comm *comm, rankSize rt.Out[uint32]) error {
	rankSize.Set(uint32(comm.size))
	return nil
}

func (l *Library) HcclGetRankId(comm *comm, rank rt.Out[uint32]) error {
	rank.Set(uint32(comm.rank))
	return nil
}

func (l *Library) HcclGetCommName(comm *comm, commName rt.Out[byte]) error {
	name := make([]byte, nameSize)
	copy(name[:nameSize-1], comm.name)
	commName.Fill(name)
	return nil
}

// HcclGetCommAsyncError sets asyncError to HCCL_E_REMOTE if the communicator has failed, else
// to 0.
func (l *Library) HcclGetCommAsyncError(comm *comm, asyncError rt.Out[int32]) error {
	if comm.reason() != nil {
		asyncError.Set(remoteError)
	} else {
		asyncError.Set(0)
	}
	return nil
}

// HcclCommDestroy destroys a communicator of the thread's device. It returns HCCL_E_AGAIN while collectives are
// pending; a null handle is not an error.
func (l *Library) HcclCommDestroy(t *rt.Thread, comm rt.Handle) error {
	if comm == 0 {
		return nil
	}
	c, err := l.findAt(t, "HcclCommDestroy", comm)
	if err != nil {
		return err
	}
	if n := c.pending.Load(); n > 0 {
		return refuse(tryAgain, "HcclCommDestroy: %d collectives of %v are not done; synchronize their streams first", n, c)
	}
	if l.rt.Handles.Delete(comm) == nil {
		return refuse(badParameter, "EI0003: HcclCommDestroy: %v is being destroyed already", c)
	}
	c.close()
	return l.changed(comm, abi.HCCL_COMM_STATE_PHASE_DESTROY_POST)
}

func (l *Library) HcclCommSuspend(comm *comm) error {
	comm.asleep.Store(true)
	return nil
}

func (l *Library) HcclCommResume(comm *comm) error {
	comm.asleep.Store(false)
	return l.changed(comm.handle, abi.HCCL_COMM_STATE_PHASE_RESUME_POST)
}

// configValue is C's HcclConfigValue, a union of 32 bits.
type configValue struct{ deterministic int32 }

func (l *Library) HcclSetConfig(config int32, configValue configValue) error {
	if config != abi.HCCL_DETERMINISTIC {
		return refuse(badParameter, "EI0003: HcclSetConfig: %d is no setting", config)
	}
	v := configValue.deterministic
	if v < 0 || v > 2 {
		return refuse(badParameter, "EI0003: HcclSetConfig: deterministic %d; 0, 1 or 2 are possible", v)
	}
	if os.Getenv("HCCL_DETERMINISTIC") != "" {
		return nil // the environment variable takes precedence
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deterministic = v
	return nil
}

func (l *Library) HcclGetConfig(config int32, configValue *configValue) error {
	if config != abi.HCCL_DETERMINISTIC {
		return refuse(badParameter, "EI0003: HcclGetConfig: %d is no setting", config)
	}
	if configValue == nil {
		return null("HcclGetConfig", "configValue")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	configValue.deterministic = l.deterministic
	return nil
}

func (l *Library) HcclGetErrorString(code int32) uintptr {
	old := l.rt.API() == abi.V81RC1 && code >= abi.HCCL_E_OPRETRY_FAIL
	if code >= 0 && int(code) < len(l.strings) && !old {
		return uintptr(l.strings[code]())
	}
	return uintptr(l.unknown())
}

func (l *Library) HcclGetCommConfigCapability() uint32 { return layoutOf(l.rt.API()).capability }
