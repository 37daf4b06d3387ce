package world_test

import (
	"testing"

	"github.com/goascend/cann/internal/testing/waiting"
)

// TestContexts: what waits takes a context, and nothing else does.
func TestContexts(t *testing.T) {
	waiting.Rule{
		Waits: []string{
			"AllGather", "Broadcast", "Gather", "Share", "Group.Barrier", "Group.Sub",
			"Join", "LocalGroups", "WaitRankTable",
			"Members.CloseContext", "Members.Of", "Mesh.Group", "Watchdog.CloseContext",
		},
		Bounded: map[string]string{
			"Detect": "it reads variables and files", "DetectFrom": "it reads variables and files", "ReadRankTable": "it reads a file",
		},
	}.Check(t, ".")
}
