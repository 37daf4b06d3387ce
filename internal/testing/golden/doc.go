// Package golden gives tests the reference data: operator cases and whole training runs that
// PyTorch and Hugging Face transformers computed, and the comparisons to hold results against
// them. What the tensors of each operator mean is said in testdata/golden/README.md.
//
// The cases come from the files alone: CANN_GOLDEN_DIR names another folder of the same form
// and the tests run on that. The package is for tests only and computes no references itself.
//
//	for _, c := range golden.Cases(t, "rms_norm") {
//		c.Run(t, func(t *testing.T, c *golden.Case) {
//			y := rmsNorm(c.Float32("x"), c.Float32("w"), c.Int("H"), c.Float("eps"))
//			require.NoError(t, golden.CheckRMS(y, c.Float32("y"), 1e-6))
//		})
//	}
//
//	m := golden.Model(t, "qwen3")
//	for _, name := range m.Sub("grad0").Names() { … m.Sub("grad0").Float32(name) … }
package golden
