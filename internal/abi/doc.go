// Package abi is the table of CANN's C interface: every aclnn operator, every runtime,
// aclnn-base and HCCL function, the driver's functions for the health of devices, the constants,
// typedefs and records, each with the versions it was seen in. The text under table/ is the single
// source of truth; package npugen makes the Go bindings, the emulator's symbols, the C declarations
// and the ABI tests from it.
//
// The constants (zz_constants.go) have their C names. The package does not call CANN and
// describes no behaviour; the bindings do.
//
//	t, err := abi.Load()
//	if err != nil { … }
//	add, _ := t.Operator("Add")
//	for _, p := range add.Params {
//		fmt.Println(p.Name, p.Type, p.Class) // self const aclTensor * tensor …
//	}
//	fmt.Println(add.Since(), add.Library, abi.ACL_ERROR_RT_CONTEXT_NULL)
package abi
