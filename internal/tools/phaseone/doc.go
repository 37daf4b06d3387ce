// Phaseone reads the C++ sources of CANN's operators and writes what phase one refuses: it
// runs the checks of an aclnn…GetWorkspaceSize function symbolically, once for each group of chips,
// and keeps every condition that it understands with the code that CANN returns. It knows the macros
// and the few functions of CANN's base library that the checks use; everything else is unknown, and
// a rule never refuses more than the sources: what is unknown in a refusal is left out, and after a
// success under an unknown condition nothing is refused. It prints what it left out, with operator, place and effect.
//
// It only reads sources that a maintainer has. README.md lists what it does not follow.
//
//	go run ./internal/tools/phaseone ops-math=FOLDER@COMMIT ops-nn=FOLDER@COMMIT > gaps.txt
package main
