// Package emptycann builds a CANN installation whose functions do nothing. It has every symbol
// of the ABI table; all report success, and the few whose result a caller needs return a usable
// one. With it tests measure what the binding costs, and try the dlopen path without CANN and
// without the emulator. It computes nothing and checks nothing.
//
//	home, err := emptycann.Build(b.TempDir())
//	os.Setenv("ASCEND_HOME_PATH", home) // before the first call of package cshim
package emptycann
