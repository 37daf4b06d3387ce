package ccl

import (
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libhccl of one process.
type Library struct {
	rt       *rt.Runtime
	timeouts Timeouts
	invalid  error  // what is wrong with the environment; every communicator call repeats it
	unique   string // this process
	host     string

	mu            sync.Mutex
	names         map[place]*comm
	fabrics       map[string]*fabric
	roots         map[string]*root
	groups        map[*rt.Thread]*group
	deterministic int32

	strings [len(texts)]func() uint64
	unknown func() uint64
}

// place is a communicator's name on a device.
type place struct {
	device int
	name   string
}

// Timeouts bound how long ranks wait for each other.
type Timeouts struct {
	Connect time.Duration // for all ranks to join
	Execute time.Duration // for the peers of a collective; 0 waits for ever
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
	if v := os.Getenv("CANN_EMU_CONNECT_TIMEOUT"); v != "" {
		if connect, err = time.ParseDuration(v); err != nil || connect <= 0 {
			return Timeouts{}, refuse(badParameter, "EI0001: CANN_EMU_CONNECT_TIMEOUT=%q: must be a duration such as 2s", v)
		}
	}
	return Timeouts{connect, execute}, nil
}

func seconds(name string, unset, lo, hi int) (time.Duration, error) {
	v := os.Getenv(name)
	if v == "" {
		return time.Duration(unset) * time.Second, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi || len(v) > 10 {
		return 0, refuse(badParameter, "EI0001: %s=%q: must be a number of seconds from %d to %d", name, v, lo, hi)
	}
	return time.Duration(n) * time.Second, nil
}

// New returns the library over a runtime, with the timeouts of the environment.
func New(r *rt.Runtime) *Library {
	t, err := TimeoutsFromEnv()
	l := NewWithTimeouts(r, t)
	l.invalid = err
	return l
}

// NewWithTimeouts is New with given timeouts.
func NewWithTimeouts(r *rt.Runtime, t Timeouts) *Library {
	l := &Library{
		rt: r, timeouts: t, unique: random(16), host: hostIdentity(),
		names: make(map[place]*comm), fabrics: make(map[string]*fabric), roots: make(map[string]*root), groups: make(map[*rt.Thread]*group),
	}
	for i, s := range texts {
		l.strings[i] = sync.OnceValue(func() uint64 { return rt.NewCString(s) })
	}
	l.unknown = sync.OnceValue(func() uint64 { return rt.NewCString(unknownText) })
	return l
}

// Live is the number of communicators, and of root infos whose ranks are still joining.
func (l *Library) Live() (comms, roots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names), len(l.roots)
}

// Functions returns the functions of hccl.h by C name.
func (l *Library) Functions() map[string]rt.Func {
	all := l.collectives()
	maps.Copy(all, map[string]rt.Func{
		"HcclGetRootInfo":               l.getRootInfo,
		"HcclCommInitRootInfo":          l.initRootInfo,
		"HcclCommInitRootInfoConfig":    l.initRootInfoConfig,
		"HcclCommInitClusterInfo":       l.initTable,
		"HcclCommInitClusterInfoConfig": l.initTableConfig,
		"HcclCommInitAll":               l.initAll,
		"HcclCreateSubCommConfig":       l.createSub,
		"HcclCommDestroy":               l.destroy,
		"HcclGetRankSize":               l.rankSize,
		"HcclGetRankId":                 l.rankID,
		"HcclGetCommName":               l.commName,
		"HcclGetCommAsyncError":         l.asyncError,
		"HcclCommSuspend":               l.suspend,
		"HcclCommResume":                l.resume,
		"HcclGroupStart":                l.groupStart,
		"HcclGroupEnd":                  l.groupEnd,
		"HcclSetConfig":                 l.setConfig,
		"HcclGetConfig":                 l.getConfig,
		"HcclGetErrorString":            l.errorString,
		"HcclGetCommConfigCapability":   func(*rt.Thread, []uint64) uint64 { return abi.HCCL_COMM_CONFIG_RESERVED },
		"HcclCommConfigInit":            configInit,
	})
	return all
}

// find is the communicator of a handle.
func (l *Library) find(function string, handle uint64) (*comm, error) {
	if handle == 0 {
		return nil, null(function, "comm")
	}
	c, ok := rt.Lookup[*comm](&l.rt.Handles, handle)
	if !ok {
		return nil, refuse(badParameter, "EI0003: %s: %#x is no live communicator; was it destroyed?", function, handle)
	}
	return c, nil
}

func (l *Library) rankSize(t *rt.Thread, a []uint64) uint64 {
	return l.tell(t, "HcclGetRankSize", "rankSize", a, func(c *comm) { rt.Write(a[1], uint32(c.size)) })
}

func (l *Library) rankID(t *rt.Thread, a []uint64) uint64 {
	return l.tell(t, "HcclGetRankId", "rank", a, func(c *comm) { rt.Write(a[1], uint32(c.rank)) })
}

func (l *Library) commName(t *rt.Thread, a []uint64) uint64 {
	return l.tell(t, "HcclGetCommName", "commName", a, func(c *comm) {
		var name [nameSize]byte
		copy(name[:nameSize-1], c.name)
		rt.Write(a[1], name)
	})
}

// asyncError answers HCCL_E_REMOTE once the communicator has failed.
func (l *Library) asyncError(t *rt.Thread, a []uint64) uint64 {
	return l.tell(t, "HcclGetCommAsyncError", "asyncError", a, func(c *comm) {
		code := int32(0)
		if c.reason() != nil {
			code = remoteError
		}
		rt.Write(a[1], code)
	})
}

// tell writes something of the communicator a[0] to a[1].
func (l *Library) tell(t *rt.Thread, function, out string, a []uint64, write func(*comm)) uint64 {
	c, err := l.find(function, a[0])
	if err == nil && a[1] == 0 {
		err = null(function, out)
	}
	if err == nil {
		write(c)
	}
	return answer(t, err)
}

// destroy ends a communicator that has no work; a null one is no error.
func (l *Library) destroy(t *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return 0
	}
	c, err := l.find("HcclCommDestroy", a[0])
	if err != nil {
		return answer(t, err)
	}
	if n := c.pending.Load(); n > 0 {
		return answer(t, refuse(tryAgain, "HcclCommDestroy: %d collectives of %v are not done; synchronize their streams first", n, c))
	}
	if l.rt.Handles.Delete(a[0]) == nil {
		return answer(t, refuse(badParameter, "EI0003: HcclCommDestroy: %v is being destroyed already", c))
	}
	c.close()
	return 0
}

func (l *Library) suspend(t *rt.Thread, a []uint64) uint64 {
	c, err := l.find("HcclCommSuspend", a[0])
	if err == nil {
		c.asleep.Store(true)
	}
	return answer(t, err)
}

func (l *Library) resume(t *rt.Thread, a []uint64) uint64 {
	c, err := l.find("HcclCommResume", a[0])
	if err == nil {
		c.asleep.Store(false)
	}
	return answer(t, err)
}

func (l *Library) setConfig(t *rt.Thread, a []uint64) uint64 {
	if int32(a[0]) != abi.HCCL_DETERMINISTIC {
		return answer(t, refuse(badParameter, "EI0003: HcclSetConfig: %d is no setting", int32(a[0])))
	}
	v := rt.Read[int32](a[1], 1)[0] // a union, by value
	if v < 0 || v > 2 {
		return answer(t, refuse(badParameter, "EI0003: HcclSetConfig: deterministic %d; 0, 1 or 2 are possible", v))
	}
	if os.Getenv("HCCL_DETERMINISTIC") != "" {
		return 0 // the environment is stronger
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deterministic = v
	return 0
}

func (l *Library) getConfig(t *rt.Thread, a []uint64) uint64 {
	if int32(a[0]) != abi.HCCL_DETERMINISTIC {
		return answer(t, refuse(badParameter, "EI0003: HcclGetConfig: %d is no setting", int32(a[0])))
	}
	if a[1] == 0 {
		return answer(t, null("HcclGetConfig", "configValue"))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rt.Write(a[1], l.deterministic)
	return 0
}

func (l *Library) errorString(_ *rt.Thread, a []uint64) uint64 {
	if code := int32(a[0]); code >= 0 && int(code) < len(l.strings) {
		return l.strings[code]()
	}
	return l.unknown()
}
