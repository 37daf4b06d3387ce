package rt

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Task is one unit of work of a stream. It has at most one of Run and Wait: Run computes; Wait
// blocks for something outside the stream and must return when cancel is closed. Drop is called
// instead when the stream is aborted before the task starts.
type Task struct {
	Name string // name in error texts and the trace
	Run  func() error
	Wait func(cancel <-chan struct{}) error
	Drop func()

	Notes   map[string]any // what the trace shows about the task
	Planned *Planned       // its line of the schedule; its name if nil

	// Then is called in the moment in which the stream counts the task as done, or drops it, so that
	// both are seen together. It must not block.
	Then func()

	// Conditional is set for a task in a graph that runs other graphs on the stream of the replay.
	Conditional func(on *Stream, cancel <-chan struct{}) error

	// Repeatable means that the task can run more than once, so it may be captured into a graph.
	Repeatable bool

	// Promise is called for a task in a graph when a replay is queued. Run fulfils the promise; it
	// is called even when the replay ends before the task.
	Promise func()

	// The fields below are for the sanitizer.
	Accesses func() []sanitize.Access // the device memory that the task touches, in order
	Follows  func() []sanitize.Access // what it touches at addresses in that memory; called on the stream, before the task runs
	Releases *sanitize.Order          // tasks that acquire it afterwards come after this task
	Acquires *sanitize.Order          // the task comes after those that released it
	Turn     *sanitize.Turn           // what it uses alone
	Host     bool                     // the task runs code of the program
	after    sanitize.Clock           // the program's clock when it queued the task
	ended    func()                   // called when the task has ended or was dropped; may be nil
}

func (t Task) do(s *Stream, cancel <-chan struct{}) error {
	switch {
	case t.Conditional != nil:
		return t.Conditional(s, cancel)
	case t.Run != nil:
		return t.Run()
	case t.Wait != nil:
		return t.Wait(cancel)
	}
	return nil
}

// step returns the task as the sanitizer sees it.
func (t *Task) step() sanitize.Step {
	return sanitize.Step{Name: t.Name, Accesses: t.Accesses, Follows: t.Follows, Releases: t.Releases, Acquires: t.Acquires, Turn: t.Turn, Host: t.Host, After: t.after}
}

// Fault is an asynchronous device error: the code that the next synchronising call returns and the
// text that aclGetRecentErrMsg then returns. When a Task fails with any other error, it is reported
// as a vector-core exception with the text of that error.
type Fault struct {
	Code int32
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("%d: %s", f.Code, f.Text) }

// FaultOf converts the error of a task to a Fault.
func FaultOf(name string, err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Code: VectorException, Text: fmt.Sprintf("%s: %v", name, err)}
}

// Report records the fault on the thread of the call that returns it.
func (f *Fault) Report(t *Thread) uint64 { return t.Fail(f.Code, "EZ9999: %s", f.Text) }
