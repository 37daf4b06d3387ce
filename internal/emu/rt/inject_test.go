package rt_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// hits returns the codes of n calls.
func hits(f *rt.Faults, name string, device, n int) []int32 {
	codes := make([]int32, n)
	for i := range codes {
		codes[i] = f.Hit(name, device)
	}
	return codes
}

func TestFaultRules(t *testing.T) {
	for text, want := range map[string][]int32{
		"aclrtMalloc=5":                   {5, 5, 5, 5},
		"aclrtMalloc:3=5":                 {0, 0, 5, 0},
		"aclrtMalloc:3+=5":                {0, 0, 5, 5},
		"aclrtMalloc@1=5":                 {0, 0, 0, 0},
		"aclrtMalloc@0:2=5":               {0, 5, 0, 0},
		"aclrtFree=5":                     {0, 0, 0, 0},
		" aclrtMalloc:1=6; aclrtFree=5;":  {6, 0, 0, 0},
		"aclrtMalloc:100%=5":              {5, 5, 5, 5},
		"aclrtMalloc:2=5;aclrtMalloc:3=6": {0, 5, 6, 0},
	} {
		f, err := rt.ParseFaults(text, 1)
		require.NoError(t, err, text)
		assert.Equal(t, want, hits(f, "aclrtMalloc", 0, 4), text)
	}
	for _, text := range []string{"", " ; "} {
		f, err := rt.ParseFaults(text, 1)
		require.NoError(t, err)
		require.Nil(t, f)
		require.Zero(t, f.Hit("aclrtMalloc", 0))
	}
	for _, text := range []string{
		"aclrtMalloc", "aclrtMalloc=", "aclrtMalloc=x", "aclrtMalloc=0", "aclrtMalloc=-1", "malloc=5", "run/malloc=5",
		"aclrtMalloc:0=5", "aclrtMalloc:x=5", "aclrtMalloc:0%=5", "aclrtMalloc:101%=5", "aclrtMalloc@x=5", "=5",
	} {
		_, err := rt.ParseFaults(text, 1)
		assert.ErrorContains(t, err, "CANN_EMU_FAULTS", text)
	}
}

// TestFaultProbability checks that the same seed gives the same failures.
func TestFaultProbability(t *testing.T) {
	draw := func(seed uint64) []int32 {
		f, err := rt.ParseFaults("aclrtMalloc:25%=5", seed)
		require.NoError(t, err)
		return hits(f, "aclrtMalloc", 0, 1000)
	}
	first := draw(7)
	require.Equal(t, first, draw(7))
	require.NotEqual(t, first, draw(8))
	n := 0
	for _, code := range first {
		if code != 0 {
			n++
		}
	}
	require.InDelta(t, 250, n, 60)
}

func FuzzParseFaults(f *testing.F) {
	f.Add("aclrtMalloc@1:3+=207001;run/aclnnAdd:5%=507015")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := rt.ParseFaults(text, 1)
		if err != nil {
			require.Nil(t, faults)
			return
		}
		faults.Hit("aclrtMalloc", 0)
	})
}

// TestFaultOfWork checks that an injected failure of a task is returned by the next synchronising
// call, as on a device.
func TestFaultOfWork(t *testing.T) {
	faults, err := rt.ParseFaults("run/aclrtMemsetAsync:2=507015", 0)
	require.NoError(t, err)
	r := rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20, SoC: "Ascend910B1", Faults: faults})
	p := &process{rttest.Of(t, r), t}
	th := p.Thread(0)
	s := p.Stream(th)
	addr := p.Out(th, "aclrtMalloc", 0, 64, 0)
	p.Must(th, "aclrtMemsetAsync", addr, 64, 1, 64, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	p.Must(th, "aclrtMemsetAsync", addr, 64, 2, 64, s)
	require.Equal(t, int32(507015), p.Call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, rttest.Text(th), "CANN_EMU_FAULTS")
	require.Equal(t, byte(1), p.read(th, addr, 1)[0], "the work was not done")
	p.Must(th, "aclFinalize")
}

func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.%p.json")
	r := rt.NewMachine(rt.Config{Devices: 2, Memory: 1 << 20, SoC: "Ascend910B1"})
	var err error
	r.Trace, err = rt.OpenTrace(path)
	require.NoError(t, err)
	p := &process{rttest.Of(t, r), t}
	th := p.Thread(1)
	s := p.Stream(th)
	p.Submit(th, s, func() error { return nil })
	p.Must(th, "aclrtSynchronizeStream", s)
	r.Trace.Flush()
	p.Submit(th, s, func() error { return nil })
	p.Must(th, "aclrtSynchronizeStream", s)
	p.Must(th, "aclFinalize")
	require.NoError(t, r.Trace.Close())

	files, err := filepath.Glob(strings.ReplaceAll(path, "%p", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	var events []rt.TraceEvent
	require.NoError(t, json.Unmarshal(text, &events), "the list continues after it has ended")
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
		if e.Name == "test" {
			require.Equal(t, "X", e.Phase)
			require.Equal(t, 2, e.Process)
		}
	}
	require.Equal(t, []string{"process_name", "thread_name", "test", "test"}, names)
	_, err = rt.OpenTrace(filepath.Join(t.TempDir(), "no", "such", "folder"))
	require.ErrorContains(t, err, "CANN_EMU_TRACE")
}
