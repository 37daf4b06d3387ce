package acl_test

import (
	"testing"

	"github.com/goascend/cann/internal/testing/waiting"
)

// TestContexts: what waits takes a context, and nothing else does.
func TestContexts(t *testing.T) {
	const full = "it waits only when the device is full, where it would fail otherwise, and only for work that is queued"
	const opens = "CANN's initialisation takes seconds and cannot be left half done"
	waiting.Rule{
		Waits: []string{
			"Allocator.EmptyCache",
			"Buffer.CloseContext", "HostBuffer.CloseContext", "Stream.CloseContext", "Graph.CloseContext", "Context.CloseContext", "Device.CloseContext",
			"Context.Copy", "Context.Copy2D", "Context.Memset", "Device.Copy", "Device.Copy2D", "Device.Memset",
			"CopyFromDevice", "CopyToDevice",
			"Context.Synchronize", "Device.Synchronize", "Stream.Synchronize", "Event.Synchronize",
			"Device.Abort", "Device.Recover",
			"Graph.Update", "Stream.Capture",
			"Runtime.Health",
		},
		Bounded: map[string]string{
			"Open": opens, "Runtime.Device": opens, "Libraries": "it opens files",
			"Context.Malloc": full, "Device.Malloc": full, "Stream.Malloc": full, "Stream.NewArena": full,
			"Stream.HostFunc": "the function is queued; with an older CANN a thread is started, which takes microseconds",
			"Graph.Replay":    "it waits only with Config.LaunchBlocking, which serves debugging",
		},
	}.Check(t, ".")
}
