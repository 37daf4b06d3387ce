//go:build linux

package hccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/internal/testing/process"
)

// TestHosts checks that ranks on separate hosts, which share only a network, work together, and
// that they continue after a host is lost or its cable is pulled.
func TestHosts(t *testing.T) {
	acltest.Need(t)
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	process.OnNetwork(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			lose   func(h *process.Host)
			errors string
			word   string
		}{
			{"lost", func(h *process.Host) { h.Kill() }, "acl.ErrPeerLost hccl.ErrRemote", "EI0006"},
			{"unplugged", func(h *process.Host) { h.Unplug() }, "acl.ErrTimeout acl.ErrPeerLost hccl.ErrRemote", "EI0002"},
		} {
			t.Run(c.name, func(t *testing.T) {
				hosts := process.Hosts(t, 3, func(address string) []string { return append(quick, "HCCL_IF_IP="+address) })
				all := make([]*process.Child, len(hosts))
				for i, h := range hosts {
					all[i] = h.Child
				}
				address := hosts[0].Address + ":29500"
				join(all, address)
				requireJoined(t, all)
				for _, text := range process.All(all, "gather") {
					require.Equal(t, "[0 1 2]", text)
				}
				for _, text := range process.All(all, "shared") {
					require.Equal(t, "false", text, "ranks of different hosts share memory")
				}
				c.lose(hosts[2])
				survivors := all[:2]
				for _, p := range survivors {
					p.Send("reduce")
				}
				requireFailed(t, survivors, c.errors, c.word)
				requireFresh(t, survivors, address)
			})
		}
	})
}
