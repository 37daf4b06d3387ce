package bridge

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
)

// Stream is an *acl.Stream as operators need it.
type Stream interface {
	// Usable is nil, or the error of a stream that is closed.
	Usable() error
	// Launch queues an operator; its workspace comes from the stream's own memory. In the
	// blocking mode it waits for the operator and returns what failed in it.
	Launch(l *cshim.Launch) error
	// Prepare runs phase one of an operator and keeps its executor.
	Prepare(l *cshim.Launch) (*cshim.Prepared, error)
	// Run queues a prepared operator. The stream must be of the context of Prepare.
	Run(p *cshim.Prepared) error
	// Use checks that work on the stream may use the memory of an *acl.Buffer, and notes the
	// stream as a user of it.
	Use(buffer any) error
	// Hold counts the graph that the stream records, if it records one, in users until the graph
	// is closed, once for each graph.
	Hold(users *atomic.Int64)
	// Mention is Hold for the users of the communicator with a name, if there is one on the stream's
	// device. Operators find their communicators by name.
	Mention(name string)
}

// Launched tells of an operator that was launched on the stream of a User: its name without prefix, the
// names of its parameters, separated by spaces, and the arguments.
type Launched func(operator, params string, l *cshim.Launch)

// Watched holds a Launched for each *User whose launches somebody watches, and Watching how many there
// are.
var (
	Watched  sync.Map
	Watching atomic.Int64
)

// User is the identity of a stream as a user of memory. Only its address counts.
type User struct{ _ byte }

// Memory tells which stream was the last to use some memory. While it is the stream that asks,
// Use would find nothing new: the memory is open and the stream may use it. A closed buffer has
// no last user. The launch asks for each tensor, so that this must be one load.
type Memory = atomic.Pointer[User]

// UsersOf gives the users of a device's communicator by its name, nil if there is none. Package hccl
// sets it; it is nil in programs without that package.
var UsersOf func(device int, name string) *atomic.Int64

// StreamOf gives the stream and the user behind an *acl.Stream, or the error of one that is nil
// or was never made.
var StreamOf func(stream any) (Stream, *User, error)

// MemoryOf gives the memory of an *acl.Buffer or of a view; nil of one that is nil or was never
// made.
var MemoryOf func(buffer any) *Memory
