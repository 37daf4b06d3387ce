package rt

import (
	"errors"
	"fmt"
)

// Task is one unit of work of a stream. Exactly one of Run, Wait and Drop-only work is
// done: Run computes; Wait blocks for something outside the stream and must return when
// cancel is closed; Drop tells that the stream was aborted before the task could start.
type Task struct {
	Name string // what error texts and the trace call it
	Run  func() error
	Wait func(cancel <-chan struct{}) error
	Drop func()

	// Conditional, of a task in a graph, runs other graphs on the stream of the replay.
	Conditional func(on *Stream, cancel <-chan struct{}) error

	// Repeatable says that the task can run again: it may be captured into a graph.
	Repeatable bool

	// Promise, of a task in a graph, is called when a replay is queued; Run then keeps it,
	// also when the replay ends before the task.
	Promise func()

	// What the sanitizers want to know.
	Accesses func() []Access // the device memory it touches, in this order
	Releases *Order          // whoever acquires it afterwards comes after this task
	Acquires *Order          // it waits for those who released it
	Host     bool            // it runs code of the program
	after    vectorClock     // what the program had waited for when it queued the task
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

// Fault is an asynchronous device error: the code that the next synchronising call returns
// and the text that aclGetRecentErrMsg then shows. A Task that fails with another error is
// reported as a vector-core exception with that error's text.
type Fault struct {
	Code int32
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("%d: %s", f.Code, f.Text) }

// faultOf makes the Fault of a task's error.
func faultOf(name string, err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Code: vectorException, Text: fmt.Sprintf("%s: %v", name, err)}
}

// report records the fault on the thread whose call it comes out of.
func (f *Fault) report(t *Thread) uint64 { return t.Fail(f.Code, "EZ9999: Inner Error!\n%s", f.Text) }
