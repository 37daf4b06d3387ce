// Package ccl is the emulated HCCL: communicators and collectives between the emulated
// devices of one process and of several processes, with the result codes and the order of
// checks of CANN's libhccl.
//
// It is not a fast network library and it knows nothing of the Go API above the C ABI.
//
//	l := ccl.New(runtime)
//	for name, f := range l.Functions() { … } // C name -> function over 64-bit words
//
// The methods that have the names of C functions emulate them; Functions is generated from their
// signatures (see package rt).
//
// A collective is a plan: phases of sends and receives between pairs of ranks (plan.go), which
// run as one task of the caller's stream (run.go). A link carries the messages of one pair of
// ranks (link.go). Between ranks of one process the receiver reads the sender's memory in place.
// Processes have a TCP connection that both ends have authenticated with the root info, and whose
// contents are encrypted (rendezvous.go, wire.go). Processes on one host share rings of headers and small
// messages (region.go, ring.go, sharedlink.go) and read each other's device memory in place, which is a
// file that both have mapped.
// Between hosts the bytes are sent over the connection, whose encryption limits it: 0.7 to 1.1 GB/s
// where the plain loopback has 2.6 GB/s and more, on two cores (BenchmarkStream of internal/handshake).
// That fills a network of 1 Gbit/s, and not quite one of 10. The elements of the ranks are reduced in
// rank order (fold.go), so results are reproducible bit for bit and equal on all ranks.
//
// Every message carries a description of its collective. If ranks disagree, if a rank vanishes,
// or if a rank does not take part within HCCL_EXEC_TIMEOUT, the streams of all ranks fail with
// EI0005, EI0006 or EI0002 instead of hanging. The communicator is then unusable and has to be
// destroyed.
package ccl
