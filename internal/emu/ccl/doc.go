// Package ccl is the emulated HCCL: communicators and collectives between the emulated
// devices of one process and of several processes, with the result codes and the order of
// checks of CANN's libhccl.
//
// It is not a fast network library and it knows nothing of the Go API above the C ABI.
//
//	l := ccl.New(runtime)
//	for name, f := range l.Functions() { … } // C name -> function over 64-bit words
//
// A collective is a plan: phases of sends and receives between pairs of ranks (plan.go),
// which run as one task of the caller's stream (run.go). A link carries the messages of one
// pair (link.go): between ranks of one process the receiver reads the sender's memory in
// place. Processes have a TCP connection that both ends have authenticated with the root info
// (meet.go, wire.go). On one host they share rings of headers and small messages (region.go,
// ring.go, lane.go) and read each other's device memory in place, which is a file that both
// have mapped; across hosts the bytes travel over the connection. The elements of the ranks
// are combined in rank order (fold.go), so results repeat bit for bit and are equal on all
// ranks.
//
// Every rank tells every other what it is about to do. Ranks that disagree, ranks that
// vanish and ranks that do not come in HCCL_EXEC_TIMEOUT fail the stream with EI0005,
// EI0006 and EI0002 on all of them, instead of hanging; the communicator is then unusable
// and has to be destroyed.
package ccl
