// Package process starts further processes of a test's own program, which obey commands of the
// test, a line each. The test can kill and stop them, give each a network of its own, and ask
// what they have not released. It is for the tests of this module only.
//
//	func TestMain(m *testing.M) {
//		if process.IsChild(newRank) { // this process was started by a test
//			return
//		}
//		goleak.VerifyTestMain(m)
//	}
//
//	all := process.Start(t, 3)
//	all[0].Send("reduce %d", 1000)
//	code, text := all[0].Receive()
//	all[1].Signal(syscall.SIGKILL)
//
// A child process ends when its standard input does, so that none outlives a test, not even one that
// crashes.
package process
