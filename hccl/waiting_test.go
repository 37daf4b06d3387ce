package hccl_test

import (
	"testing"

	"github.com/goascend/cann/internal/testing/waiting"
)

// TestContexts: what waits takes a context, and nothing else does.
func TestContexts(t *testing.T) {
	const first = "it queues; the first one of a communicator connects the ranks, within HCCL_CONNECT_TIMEOUT"
	bounded := map[string]string{"NewRootInfo": "it opens a listener, and the ranks come in Join"}
	for _, name := range []string{
		"AllGather", "AllGatherV", "AllReduce", "AllToAll", "AllToAllV", "AllToAllVC", "Barrier", "Broadcast", "Exchange", "Recv", "Reduce",
		"ReduceScatter", "ReduceScatterV", "Scatter", "Send",
	} {
		bounded["Comm."+name] = first
	}
	waiting.Rule{Waits: []string{"Join", "JoinAll", "Comm.SetMemoryRange"}, Bounded: bounded}.Check(t, ".")
}
