//go:build asan

package sanitize_test

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestFence checks that the address sanitizer reports accesses behind an allocation and to freed
// memory.
func TestFence(t *testing.T) {
	if at := os.Getenv("FENCE_AT"); at != "" {
		p := rttest.New(t)
		th := p.Thread(0)
		a := p.Out(th, "aclrtMalloc", 0, 512, 0)
		s, code := p.Runtime.Stream(th, 0)
		require.Zero(t, code)
		first, err := s.Memory().Resolve(a, 512)
		require.NoError(t, err)
		end := uintptr((512 + 63) / 32 * 32)
		switch at {
		case "inside":
			t.Log(*(*byte)(unsafe.Add(first, end-1)))
		case "behind":
			t.Log(*(*byte)(unsafe.Add(first, end)))
		case "freed":
			p.Must(th, "aclrtFree", a)
			t.Log(*(*byte)(first))
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
