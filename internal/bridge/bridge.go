package bridge

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/class"
)

// Queue is an acl.Stream as operators need it.
type Queue interface {
	// User returns who the stream is, at this moment, to the memory that it uses.
	User() *User
	// Usable is nil, or the error of a stream that is closed.
	Usable() error
	// Launch queues an operator; its workspace comes from the stream's own memory. In the
	// blocking mode it waits for the operator and returns what failed in it.
	Launch(l *cshim.Launch) error
	// Prepare runs phase one of an operator and keeps its executor.
	Prepare(l *cshim.Launch) (*cshim.Prepared, error)
	// Run queues a prepared operator. The stream must be of the context of Prepare.
	Run(p *cshim.Prepared) error
	// Use checks that work on the stream may use the memory of an acl.Buffer, and notes the
	// stream as a user of it.
	Use(m Memory) error
	// Hold counts the graph that the stream records, if it records one, in graphs until the graph
	// is closed, once for each graph.
	Hold(graphs *atomic.Int64)
	// HoldGroup is Hold for the communicator with a name, if there is one on the stream's device.
	// Operators find their communicators by name.
	HoldGroup(name string)
}

// Memory is the memory of an acl.Buffer or of a view.
type Memory interface {
	// LastUser returns where the last user of the memory is noted.
	LastUser() *LastUser
}

// LastUser holds the stream that was the last to use some memory. While it is the stream that asks,
// Queue.Use would find nothing new: the memory is open and the stream may use it. A closed buffer has
// no last user. A launch asks for each tensor, so that this must be one load.
type LastUser = atomic.Pointer[User]

// User is the identity of a stream as a user of memory: its address.
type User struct {
	// Observer is called after each launch on the stream of the User, unless it is nil.
	Observer atomic.Pointer[Observer]
}

// Observer gets an operator that was launched: its name without prefix, the names of its parameters,
// separated by spaces, and the arguments.
type Observer func(operator, params string, l *cshim.Launch)

// Stream is embedded in acl.Stream.
type Stream struct{ queue Queue }

// NewStream returns what an acl.Stream embeds.
func NewStream(q Queue) Stream { return Stream{q} }

func (s *Stream) bridged() Queue { return s.queue }

// Buffer is embedded in acl.Buffer.
type Buffer struct{ memory Memory }

// NewBuffer returns what an acl.Buffer embeds.
func NewBuffer(m Memory) Buffer { return Buffer{m} }

func (b *Buffer) bridged() Memory { return b.memory }

// ErrStream is the error of a stream that is nil or was never made.
var ErrStream = class.Of(class.ErrInvalidArgument, "the stream is nil, or was not made by package acl")

// StreamOf returns the queue and the user behind an *acl.Stream.
func StreamOf[T any, S interface {
	*T
	bridged() Queue
}](st S) (Queue, *User, error) {
	if st != nil {
		if q := st.bridged(); q != nil {
			return q, q.User(), nil
		}
	}
	return nil, nil, ErrStream
}

// MemoryOf returns the memory of an *acl.Buffer; nil of one that is nil or was never made.
func MemoryOf[T any, B interface {
	*T
	bridged() Memory
}](buffer B) Memory {
	if buffer == nil {
		return nil
	}
	return buffer.bridged()
}

// Groups are the open communicators of the process.
var Groups groups

// groups holds, by place, the number of graphs that use a communicator.
type groups struct{ open sync.Map } // of group, *atomic.Int64

// group is where operators find a communicator.
type group struct {
	device int
	name   string
}

// Open adds a communicator.
func (g *groups) Open(device int, name string, graphs *atomic.Int64) {
	g.open.Store(group{device, name}, graphs)
}

// Close removes it, unless another one has taken its place.
func (g *groups) Close(device int, name string, graphs *atomic.Int64) {
	g.open.CompareAndDelete(group{device, name}, graphs)
}

// Graphs returns the number of graphs that use a communicator; nil if there is no such communicator.
func (g *groups) Graphs(device int, name string) *atomic.Int64 {
	graphs, _ := g.open.Load(group{device, name})
	n, _ := graphs.(*atomic.Int64)
	return n
}
