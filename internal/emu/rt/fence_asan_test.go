//go:build asan

package rt

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFence: the address sanitizer reports a byte behind an allocation and one that is freed.
func TestFence(t *testing.T) {
	if at := os.Getenv("FENCE_AT"); at != "" {
		p := newProcess(t)
		th := p.thread(0)
		a := p.out(th, "aclrtMalloc", 0, 512, 0)
		m := p.r.Memory(0)
		end := a + (512+63)/32*32
		switch at {
		case "inside":
			t.Log(m.bytes(a, end)[end-a-1])
		case "behind":
			t.Log(m.bytes(a, end+1)[end-a])
		case "freed":
			p.must(th, "aclrtFree", a)
			t.Log(m.bytes(a, end)[0])
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
