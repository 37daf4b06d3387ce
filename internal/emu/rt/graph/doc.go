// Package graph emulates CANN's graphs (aclmdlRI…). A graph holds tasks that were captured from
// streams, or that were submitted to streams bound to it; a replay runs them again. The package
// also emulates the bodies of conditional tasks, and groups of tasks that can be replaced.
//
//	g := graph.New(runtime)
//	for name, f := range g.Functions() { … } // C name -> function over 64-bit words
//
// A stream passes its tasks to the rt.Recorder or rt.Taker that this package sets on it. Package rt
// runs the tasks, and decides what events and copies do during a capture.
package graph
