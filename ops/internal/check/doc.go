// Package check collects faults in the arguments of an operator, for packages ops and ops/parallel.
// It looks at descriptors only, never at device memory, and knows no operator.
//
//	var c check.Args
//	c.Tensor("X", a.X, check.Floats...)
//	if c.OK() {
//		c.Shape("Weight", a.Weight, a.X.Dim(-1))
//	}
//	return c.Err
package check
