package nn

import (
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// Sizes of CANN's cache of executors.
const (
	cacheLimit    = 10_000     // entries of one thread, unless ACLNN_CACHE_LIMIT says otherwise
	cacheLimitMax = 10_000_000 // of ACLNN_CACHE_LIMIT
	cacheShrink   = 30         // entries that leave a full cache, those used least recently
)

// caches are the executor caches of all OS threads. Phase one looks for its call, by operator and
// arguments but without addresses and stream, among those that its thread has launched before. A hit
// skips the checks and the tiling, and returns a wrap of the entry, which the thread keeps: its buffer
// of kernel arguments is filled by each phase two without a lock.
type caches struct {
	limit      int
	cold       time.Duration // CANN_EMU_COLD_PREPARE
	newThread  time.Duration // CANN_EMU_THREAD_START
	err        error         // why the variables are unusable; phase one repeats it
	seed       maphash.Seed  // of the hashes of keys
	mu         sync.RWMutex
	threads    map[uint64]*threadCache // by number of the thread
	lastThread uint64
}

func newCaches() *caches {
	c := &caches{limit: cacheLimit, seed: maphash.MakeSeed(), threads: make(map[uint64]*threadCache)}
	if n, err := strconv.ParseUint(knob.Get("ACLNN_CACHE_LIMIT"), 10, 64); err == nil {
		c.limit = int(min(n, cacheLimitMax))
	}
	c.cold, c.newThread = c.duration("CANN_EMU_COLD_PREPARE"), c.duration("CANN_EMU_THREAD_START")
	return c
}

// duration reads a variable that holds a Go duration such as 200us.
func (c *caches) duration(name string) time.Duration {
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

// threadCache is the cache of one OS thread. Only its thread looks entries up and adds them, but
// executors may end on other threads. It knows calls by the hash of their keys, since a service whose
// shapes change fills the caches of many threads with thousands of keys; what computes a call is kept
// elsewhere, by its whole key.
type threadCache struct {
	thread uint64
	tid    int // of the kernel

	mu      sync.Mutex
	entries map[uint64]*entry
	recent  entry  // of the ring of all entries: the one used last comes next, the oldest before
	key     []byte // space for the key of the call that is prepared

	hits, misses, passed, evicted atomic.Uint64
}

// of returns the cache of a thread. The first use of a thread costs what loading the platform
// configuration costs on the device.
func (c *caches) of(t *rt.Thread) *threadCache {
	c.mu.RLock()
	tc := c.threads[t.Number]
	c.mu.RUnlock()
	if tc != nil {
		return tc
	}
	spend(c.newThread)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetEnded()
	c.lastThread++
	t.Number = c.lastThread
	tc = &threadCache{thread: t.Number, tid: syscall.Gettid(), entries: make(map[uint64]*entry)}
	tc.recent.next, tc.recent.before = &tc.recent, &tc.recent
	c.threads[t.Number] = tc
	return tc
}

// forgetEnded drops the caches of threads that have ended, as the end of a thread does on the device.
func (c *caches) forgetEnded() {
	for n, tc := range c.threads {
		if syscall.Tgkill(os.Getpid(), tc.tid, 0) == syscall.ESRCH {
			delete(c.threads, n)
		}
	}
}

// spend keeps the thread busy. Work of the host would not let it sleep either.
func spend(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// entry is a call that its thread has launched before.
type entry struct {
	owner        *threadCache
	hash         uint64 // of its key
	next, before *entry // in the ring of owner.recent; nil when the entry is in the cache no more

	usable  bool   // phase two of the call that made it has succeeded
	runs    uint64 // how often a wrap has filled the buffer
	foreign uint64 // of these, on other threads than the owner's
}

// used puts an entry in front of the others.
func (tc *threadCache) used(e *entry) {
	if e.next != nil {
		e.unlink()
	}
	e.before, e.next = &tc.recent, tc.recent.next
	e.before.next, e.next.before = e, e
}

func (e *entry) unlink() {
	e.before.next, e.next.before = e.next, e.before
	e.next, e.before = nil, nil
}

// find returns a wrap of the usable entry with the hash, if there is one, and counts.
func (tc *threadCache) find(hash uint64) (l lease, hit bool) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	e := tc.entries[hash]
	if e != nil {
		tc.used(e)
	}
	if e == nil || !e.usable {
		tc.misses.Add(1)
		return lease{}, false
	}
	tc.hits.Add(1)
	return lease{entry: e, wrapped: true, runs: e.runs, foreign: e.foreign}, true
}

// add makes an entry for a call that phase one has accepted. It returns nil if another executor
// of the same call has one.
func (tc *threadCache) add(hash uint64, limit int) *entry {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if limit == 0 || tc.entries[hash] != nil {
		return nil
	}
	if len(tc.entries) >= limit {
		for range min(cacheShrink, len(tc.entries)) {
			tc.drop(tc.recent.before)
			tc.evicted.Add(1)
		}
	}
	e := &entry{owner: tc, hash: hash}
	tc.used(e)
	tc.entries[hash] = e
	return e
}

// drop removes an entry. The caller holds the lock.
func (tc *threadCache) drop(e *entry) {
	if e.next != nil {
		e.unlink()
		delete(tc.entries, e.hash)
	}
}

// settle ends the executor that made the entry: the entry can be used from now on if phase two
// succeeded, and is dropped otherwise.
func (e *entry) settle(succeeded bool) {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	if succeeded {
		e.usable = true
		return
	}
	e.owner.drop(e)
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
	l.caches.mu.RLock()
	defer l.caches.mu.RUnlock()
	var all []CacheStats
	for _, tc := range l.caches.threads {
		tc.mu.Lock()
		n := len(tc.entries)
		tc.mu.Unlock()
		all = append(all, CacheStats{tc.thread, tc.hits.Load(), tc.misses.Load(), tc.passed.Load(), tc.evicted.Load(), n})
	}
	return all
}

// InitPTACacheThreadLocal makes the calls of phase one on this thread go by the key that
// SetPTACacheHashKey gives instead of their arguments. It sets an empty key, with which nothing is
// found and nothing kept.
func (l *Library) InitPTACacheThreadLocal(t *rt.Thread) { t.PassesCache = true }

// UnInitPTACacheThreadLocal ends what InitPTACacheThreadLocal began.
func (l *Library) UnInitPTACacheThreadLocal(t *rt.Thread) { t.PassesCache = false }
