// Package opstest is what the tests of ops and of ops/parallel stand on: a stream with the operators of its
// device, tensors of given or random values, comparison of results, and references of products and masks.
// Tests of other packages open devices with acltest.
//
//	r := opstest.New(t)
//	x, values := r.Input(aclnn.Float32, 1, 4, 8)
//	opstest.Run(r, r.RMSNorm(), &ops.RMSNormArgs{…})
//	r.Near("y", y, want, opstest.Tolerance(aclnn.Float32))
package opstest
