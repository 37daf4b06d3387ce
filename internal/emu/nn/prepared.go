package nn

import (
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// prepared is an aclOpExecutor: a call that phase one has accepted, and its place in the cache.
type prepared struct {
	*op.Executor
	lease

	task      rt.Task // computes the call on a stream
	memory    op.Memory
	workspace uint64
	succeeded bool
}

// lease is the part that an executor has in the cache.
type lease struct {
	key  callKey
	kept bool // the executor returns to the cache after its computation

	entry   *entry // which the call made, or which it uses when it is a wrap; nil when it is not cached
	wrapped bool

	runs, foreign uint64 // of the entry when the wrap was made
}

// compute is the computation on a stream.
func (x *prepared) compute() error {
	err := x.Execute(x.memory, x.workspace, x.Run)
	x.succeeded = err == nil
	return err
}

// fill does what phase two does with the buffer of an entry: it writes the addresses of this call into
// it, for the kernel launch that follows. The owner of the entry and other threads do so without a
// lock, so that of two calls that overlap one launches with the arguments of the other.
func (x *prepared) fill(t *rt.Thread) error {
	if !x.wrapped {
		return nil
	}
	e := x.entry
	e.owner.cache.mu.Lock()
	defer e.owner.cache.mu.Unlock()
	own := e.owner.thread == t.Number
	switch {
	case e.place == nil:
		return x.misused("the thread of phase one has dropped the entry of its cache that the executor wraps")
	case e.foreign != x.foreign, !own && e.runs != x.runs:
		return x.misused("race: between the phases of this call, another call of the same operator and shapes has used the same entry of a thread's cache, " +
			"and one of the two ran phase two on another thread than phase one")
	}
	e.runs++
	if !own {
		e.foreign++
	}
	return nil
}

// leave takes the call's entry out of the cache, because the executor becomes its only user. CANN looks
// for it in the cache of the calling thread; in another one it would stay behind the executor's end.
func (x *prepared) leave(t *rt.Thread) error {
	if x.entry == nil {
		return nil
	}
	if x.entry.owner.thread != t.Number {
		return x.misused("aclSetAclOpExecutorRepeatable runs on another thread than phase one, whose cache keeps an entry that ends with the executor")
	}
	x.end(false)
	return nil
}

// end ends an executor. The entry that it made can be used from now on if phase two succeeded, and is
// dropped otherwise.
func (l *lease) end(succeeded bool) {
	e := l.entry
	if e == nil || l.wrapped {
		return
	}
	l.entry = nil
	e.owner.cache.mu.Lock()
	defer e.owner.cache.mu.Unlock()
	if succeeded {
		e.usable = true
	} else {
		e.owner.drop(e)
	}
}

// misused is the error of a use that corrupts memory on the device.
func (x *prepared) misused(text string) error {
	return x.refuse(int32(abi.ACLNN_ERR_INNER), "%s", text)
}
