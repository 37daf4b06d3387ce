// Package setup says which setups of a job work, before the job occupies a device: most of those that
// do not work fail late, or compute wrong numbers silently.
//
//	advice, err := setup.Delta{Stack: setup.DeltaMegatron, Megatron: "0.16.0", KeyHeads: 16, ValueHeads: 32}.Check()
//	for _, a := range advice {
//		log.Print(a) // it works, but slowly or only by what the software does itself
//	}
//	var refusal *ops.Refusal
//	errors.As(err, &refusal) // which rule, why, and what to do instead
//
// The package knows software besides this module too. It looks at nothing itself: the caller describes
// the job. What an operator's kernels take is in package ops.
package setup
