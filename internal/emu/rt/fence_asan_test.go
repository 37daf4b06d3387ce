//go:build asan

package rt_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFence checks that the address sanitizer reports accesses behind an allocation and to freed
// memory.
func TestFence(t *testing.T) {
	if at := os.Getenv("FENCE_AT"); at != "" {
		p := newProcess(t)
		th := p.Thread(0)
		a := p.Out(th, "aclrtMalloc", 0, 512, 0)
		m := p.Runtime.Memory(0)
		end := a + (512+63)/32*32
		switch at {
		case "inside":
			t.Log(m.HostBytes(a, end)[end-a-1])
		case "behind":
			t.Log(m.HostBytes(a, end+1)[end-a])
		case "freed":
			p.Must(th, "aclrtFree", a)
			t.Log(m.HostBytes(a, end)[0])
		}
		return
	}
	for at, reported := range map[string]bool{"inside": false, "behind": true, "freed": true} {
		c := exec.Command(os.Args[0], "-test.run=^TestFence$")
		c.Env = append(os.Environ(), "FENCE_AT="+at)
		out, err := c.CombinedOutput()
		require.Equal(t, reported, err != nil, "%s: %s", at, out)
		if reported {
			require.Contains(t, string(out), "use-after-poison")
		}
	}
}
