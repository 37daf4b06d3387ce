// Package phaseone reads the C++ sources of CANN's operators and finds what phase one refuses: it
// runs the checks of an aclnn…GetWorkspaceSize function symbolically, once for each group of chips,
// and keeps every condition that it understands with the code that CANN returns. It knows the macros
// and the few functions of CANN's base library that the checks use; everything else is unknown, and
// a rule never says more than the sources: what is unknown in a refusal is left out, and after a
// success under an unknown condition nothing is refused.
//
// It is not a compiler: it reads declarations, calls, branches and counting loops, and no classes.
//
//	r, err := phaseone.Open("ops-math", folder, commit)
//	text := phaseone.Text(r, r.Extract(table))
package phaseone
