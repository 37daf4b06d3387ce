package nn

import "container/list"

// Limits of the executors that the cache keeps.
const (
	executorCalls   = 1024 // calls that have executors, those used last
	executorsOfCall = 32   // executors of one call that nothing uses
)

// cachedCall is a call that has entries or executors.
type cachedCall struct {
	key       callKey
	entries   int           // of threads
	executors []*prepared   // that nothing uses
	place     *list.Element // in cache.recent; nil if it may have no executors
}

// call returns the call with a key, and adds it if need be.
func (c *cache) call(key callKey) *cachedCall {
	of := c.calls[key]
	if of == nil {
		of = &cachedCall{key: key}
		c.calls[key] = of
	}
	return of
}

// release forgets a call that has neither entries nor executors.
func (c *cache) release(of *cachedCall) {
	if of.entries == 0 && of.place == nil {
		delete(c.calls, of.key)
	}
}

// take returns an executor of the call with the key, or nil.
func (c *cache) take(key callKey) *prepared {
	of := c.calls[key]
	if of == nil || of.place == nil {
		return nil
	}
	c.recent.MoveToFront(of.place)
	last := len(of.executors) - 1
	if last < 0 {
		return nil
	}
	x := of.executors[last]
	of.executors = of.executors[:last]
	return x
}

// put keeps an executor that nothing uses any more, unless its computation failed. The call that was
// used least recently loses its executors if there are too many calls.
func (c *cache) put(x *prepared) {
	if !x.succeeded || x.Call.Once() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.call(x.key)
	if of.place == nil {
		of.place = c.recent.PushFront(of)
	}
	if len(of.executors) < executorsOfCall {
		of.executors = append(of.executors, x)
	}
	if c.recent.Len() > executorCalls {
		oldest := c.recent.Back().Value.(*cachedCall)
		c.recent.Remove(oldest.place)
		oldest.place, oldest.executors = nil, nil
		c.release(oldest)
	}
}
