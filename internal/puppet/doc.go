// Package puppet runs a test's own program as other processes that do what the test tells
// them, a line at a time, so that the test can kill them, stop them, put them on hosts of
// their own, and ask what they have left behind. It is for the tests of this module, and is no
// part of the library.
//
//	func TestMain(m *testing.M) {
//		if puppet.Plays(newRank) { // this process was started by a test
//			return
//		}
//		goleak.VerifyTestMain(m)
//	}
//
//	all := puppet.Start(t, 3)
//	all[0].Tell("reduce %d", 1000)
//	code, text := all[0].Hear()
//	all[1].Signal(syscall.SIGKILL)
//
// A puppet that the test loses, also by a crash of the test, ends with its standard input.
package puppet
