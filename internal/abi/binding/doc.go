// Package binding writes the Go functions of operators: those of package aclnn, and those of a package of
// custom operators that imports it. A function has a struct of arguments, in C order, which knows its operator
// and how it is encoded.
//
//	source, err := binding.Package{Name: "myops", Aclnn: "aclnn.", Tool: "aclnn/bind"}.File(operators)
package binding
