// Package key has the keys by which the operators of packages ops, ops/decode and ops/parallel choose
// their kernels. A key is a comparable struct of facts about the arguments: dtypes, sizes, layouts, and
// which optional arguments are given. Only who writes a kernel of an operator needs it:
//
//	err := reg.RMSNorm().Register(ops.Kernel[ops.RMSNormArgs, key.RMSNorm]{
//		Name: "mine",
//		Supports: func(env *ops.Env, k key.RMSNorm) error {
//			if k.Width%64 != 0 {
//				return errors.New("the width is not a multiple of 64")
//			}
//			return nil
//		},
//		Run: …,
//	})
//
// A size that a model fixes, such as a width, is in a key as it is. A size that changes from call to
// call, such as a number of tokens, is in it as an Extent, so that there are few different keys.
//
// The package chooses nothing and reads no arguments; the operators make the keys.
package key
