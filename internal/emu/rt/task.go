package rt

import "fmt"

// Task is one unit of work of a stream.
type Task struct {
	Name string // what error texts and the trace call it
	Run  func() error
}

// Fault is an asynchronous device error: the code that the next synchronising call returns
// and the text that aclGetRecentErrMsg then shows. A Task that fails with another error is
// reported as a vector-core exception with that error's text.
type Fault struct {
	Code int32
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("%d: %s", f.Code, f.Text) }
