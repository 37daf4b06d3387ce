// Package profile emulates what a program reports to its tools: the calls of CANN's profiler (aclprof…) and
// the marks and ranges of mstx.
//
//	p := profile.New(runtime)
//	for name, f := range p.Functions() { … } // C name -> function over 64-bit words
//
// The profiler measures nothing: its calls are accepted in the right order and refused in a wrong
// one. Marks appear in the trace of CANN_EMU_TRACE, which package rt writes.
package profile
