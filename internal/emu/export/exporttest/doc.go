// Package exporttest calls the emulator's C symbols from C, for the tests of package
// export: test files cannot hold C themselves. It is of no use outside tests.
//
//	code, text := exporttest.Unsupported()
package exporttest
