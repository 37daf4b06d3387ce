// Package foreach holds the operators that apply one operation to every member of tensor lists.
//
// Each is an element-wise computation on lists of equal length, with one scalar for all members or
// one for each. Optimizers that work on lists are in package optimizer.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package foreach

// Table holds the operators of the family by name without "aclnn".
var Table = foreachTable
