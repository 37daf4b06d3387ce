// Package waiting checks the module's rule for context.Context: exported functions and methods that wait
// take one, as their first parameter, and those that only queue or compute take none. What waits is
// written down by the package's test, so that a new function is decided when it is added.
//
//	waiting.Rule{Waits: []string{"Join", "Group.Barrier"}, Bounded: map[string]string{"Comm.Barrier": "HCCL's limit"}}.Check(t, ".")
package waiting
