// Package emptycann builds a CANN installation whose functions do nothing: every symbol of
// the ABI table is there and answers success, and the few whose result a caller needs hand
// out something usable. It measures what a binding costs, and tests the dlopen path where
// there is neither CANN nor the emulator. It computes nothing and checks nothing.
//
//	home, err := emptycann.Build(b.TempDir())
//	os.Setenv("ASCEND_HOME_PATH", home) // before the first call of package cshim
package emptycann
