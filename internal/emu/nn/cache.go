package nn

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// Sizes of CANN's cache of executors.
const (
	cacheLimit    = 10_000     // entries of one thread, unless ACLNN_CACHE_LIMIT is set
	cacheLimitMax = 10_000_000 // of ACLNN_CACHE_LIMIT
	cacheShrink   = 30         // entries that leave a full cache, those used least recently
)

// cache is the cache of executors. It knows a call by operator and arguments, without addresses and
// stream. As in CANN each OS thread has entries for the calls that it has launched: phase one returns
// a wrap of such an entry, whose buffer of kernel arguments each phase two fills without a lock. The
// executors whose computation has ended serve equal calls of all threads, which need neither checks
// nor memory then.
type cache struct {
	limit     int
	cold      time.Duration   // CANN_EMU_COLD_PREPARE
	newThread time.Duration   // CANN_EMU_THREAD_START
	err       error           // why the variables are unusable; phase one repeats it
	seeds     [2]maphash.Seed // of the hashes in callKey

	mu         sync.Mutex // of everything below and of what it refers to
	calls      map[callKey]*cachedCall
	recent     list.List               // of the calls that have executors, the one used last in front
	threads    map[uint64]*threadCache // by number of the thread
	lastThread uint64
}

// callKey is the hash of an operator and its arguments, long enough to stand for them: a service whose
// shapes change fills the caches of many threads with thousands of calls.
type callKey [2]uint64

func newCache() *cache {
	c := &cache{limit: cacheLimit, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		calls: make(map[callKey]*cachedCall), threads: make(map[uint64]*threadCache)}
	if n, err := strconv.ParseUint(knob.Get("ACLNN_CACHE_LIMIT"), 10, 64); err == nil {
		c.limit = int(min(n, cacheLimitMax))
	}
	c.cold, c.newThread = c.duration("CANN_EMU_COLD_PREPARE"), c.duration("CANN_EMU_THREAD_START")
	return c
}

// duration reads a variable that holds a Go duration such as 200us.
func (c *cache) duration(name string) time.Duration {
	text := knob.Get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > time.Minute {
		c.err = &op.Error{Code: int32(abi.ACLNN_ERR_INNER), Text: fmt.Sprintf("%s=%q: must be a duration from 0 to 1m, such as 200us", name, text)}
		return 0
	}
	return d
}

// threadCache has the entries of one OS thread. Only its thread looks entries up and adds them, but
// executors may end on other threads.
type threadCache struct {
	cache   *cache
	thread  uint64
	tid     int // of the kernel
	entries map[callKey]*entry
	recent  list.List // of the entries, the one used last in front
	text    []byte    // space for what describes the call that is prepared; the thread's own

	hits, misses, passed, evicted uint64
}

// entry is a call that its thread has launched before.
type entry struct {
	owner *threadCache
	call  *cachedCall
	place *list.Element // in owner.recent; nil when the entry is in the cache no more

	usable  bool   // phase two of the call that made it has succeeded
	runs    uint64 // how often a wrap has filled the buffer
	foreign uint64 // of these, on other threads than the owner's
}

// of returns the cache of a thread. The first use of a thread costs what loading the platform
// configuration costs on the device.
func (c *cache) of(t *rt.Thread) *threadCache {
	c.mu.Lock()
	tc := c.threads[t.Number]
	c.mu.Unlock()
	if tc != nil {
		return tc
	}
	spend(c.newThread)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetEnded()
	c.lastThread++
	t.Number = c.lastThread
	tc = &threadCache{cache: c, thread: t.Number, tid: syscall.Gettid(), entries: make(map[callKey]*entry)}
	c.threads[t.Number] = tc
	return tc
}

// forgetEnded drops the caches of threads that have ended, as the end of a thread does on the device.
func (c *cache) forgetEnded() {
	for n, tc := range c.threads {
		if syscall.Tgkill(os.Getpid(), tc.tid, 0) == syscall.ESRCH {
			for _, e := range tc.entries {
				tc.drop(e)
			}
			delete(c.threads, n)
		}
	}
}

// spend keeps the thread busy. Work of the host would not let it sleep either.
func spend(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// find looks a call up in the cache of its thread. A call that is not there takes the time that phase
// one takes on the device, and gets an entry. idle is an executor of an equal call, or nil.
func (c *cache) find(t *rt.Thread, o *op.Operator, args []any) (l lease, idle *prepared, err error) {
	if c.err != nil {
		return lease{}, nil, c.err
	}
	tc := c.of(t)
	tc.text = appendCall(tc.text[:0], o, args)
	long := len(tc.text) > keyLimit
	if !long {
		l = lease{key: callKey{maphash.Bytes(c.seeds[0], tc.text), maphash.Bytes(c.seeds[1], tc.text)}, kept: true}
	}
	c.mu.Lock()
	if long || o.Individual || t.PassesCache {
		tc.passed++
	} else {
		tc.find(&l)
	}
	if !long {
		idle = c.take(l.key)
	}
	c.mu.Unlock()
	if !l.wrapped {
		spend(c.cold)
	}
	return l, idle, nil
}

// find makes the lease a wrap of the usable entry, if there is one, or else adds an entry unless another
// executor of the same call has one.
func (tc *threadCache) find(l *lease) {
	e := tc.entries[l.key]
	if e != nil {
		tc.recent.MoveToFront(e.place)
	}
	switch {
	case e != nil && e.usable:
		tc.hits++
		l.entry, l.wrapped, l.runs, l.foreign = e, true, e.runs, e.foreign
		return
	case e == nil && tc.cache.limit > 0:
		l.entry = tc.add(l.key)
		l.kept = false // many calls never come again
	}
	tc.misses++
}

func (tc *threadCache) add(key callKey) *entry {
	if len(tc.entries) >= tc.cache.limit {
		for range min(cacheShrink, len(tc.entries)) {
			tc.drop(tc.recent.Back().Value.(*entry))
			tc.evicted++
		}
	}
	e := &entry{owner: tc, call: tc.cache.call(key)}
	e.call.entries++
	e.place = tc.recent.PushFront(e)
	tc.entries[key] = e
	return e
}

// drop removes an entry that is in the cache still.
func (tc *threadCache) drop(e *entry) {
	if e.place == nil {
		return
	}
	tc.recent.Remove(e.place)
	e.place = nil
	delete(tc.entries, e.call.key)
	e.call.entries--
	tc.cache.release(e.call)
}

// CacheStats is the state of the executor cache of one OS thread.
type CacheStats struct {
	Thread  uint64 // a number that no other thread gets
	Hits    uint64 // phases one that found their call
	Misses  uint64 // phases one that did not
	Passed  uint64 // phases one that do not ask the cache, see Library.Caches
	Evicted uint64 // entries that left a full cache
	Entries int
}

// Caches returns the executor caches of the threads that have launched operators. Calls of operators
// with an NNOPBASE executor, whose cache all threads share, calls whose description is longer than
// 8 KiB, and those between InitPTACacheThreadLocal and UnInitPTACacheThreadLocal pass the cache by.
func (l *Library) Caches() []CacheStats {
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	var all []CacheStats
	for _, tc := range l.cache.threads {
		all = append(all, CacheStats{tc.thread, tc.hits, tc.misses, tc.passed, tc.evicted, len(tc.entries)})
	}
	return all
}

// InitPTACacheThreadLocal makes the calls of phase one on this thread go by the key that
// SetPTACacheHashKey gives instead of their arguments. It sets an empty key, with which nothing is
// found and nothing kept.
func (l *Library) InitPTACacheThreadLocal(t *rt.Thread) { t.PassesCache = true }

// UnInitPTACacheThreadLocal ends what InitPTACacheThreadLocal began.
func (l *Library) UnInitPTACacheThreadLocal(t *rt.Thread) { t.PassesCache = false }
