// Package pool is the caching allocator of device memory: it carves blocks out of segments
// that it gets from a Source, and hands a freed block out again without asking the device
// to wait.
//
// A block belongs to a stream. Freed, it can at once be given to the same stream again,
// because work on one stream runs in order. A block that other streams used as well waits
// until a fence on each of them has passed. Blocks that no stream may be using any more
// are unowned and can be given to every stream.
//
//	p := pool.New(source)
//	b, err := p.Malloc(stream, 1<<20)
//	err = p.Free(b, otherStreams)
//	stats := p.Stats()
//
// The package knows addresses and sizes only; it does not touch the memory and makes no call
// of CANN itself. Package acl gives it the Source and the streams.
package pool
