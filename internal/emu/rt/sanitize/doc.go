// Package sanitize finds misuse of device memory by tasks of streams: reads of bytes that were never
// written, conflicting accesses of two streams, or of a stream and the host, without an order between
// them, and memory that is freed while a queued task, such as a collective, uses it.
//
//	z := sanitize.New(sanitize.Config{Race: true}, memory)
//	text := z.Enter(&actor, &step) // "" or a finding
//	…                              // the task runs
//	z.Leave(&actor, &step)
//
// Package rt reports to a Checker what happens: which tasks start and end on a stream (Actor), what they
// access (Access), how they are ordered (Order), and which allocations are freed. The package knows
// neither streams nor devices, and it does not know which memory an operator accesses; package op
// does. Bounds of tensors and addresses of freed memory are always checked, by rt.Memory; for C
// code that leaves its tensors, Fence marks free memory for the address sanitizer.
package sanitize
