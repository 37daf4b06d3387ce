// Package elementwise has kernels that compute each element of the output from elements at the same place: [Map] with its
// operators, copies and conversions between layouts and types, and filling.
//
// To add an operator: a row in the lists of op.h with its expression, a constant in op.go at the same place, and a case in
// map_test.go with the definition in double precision. An expression that needs more than one line is a function of
// activation.h or special.h.
package elementwise
