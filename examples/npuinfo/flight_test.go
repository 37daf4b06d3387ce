package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// TestFlight: the records of two of three ranks become one story, in the order of time.
func TestFlight(t *testing.T) {
	dir := t.TempDir()
	at := func(n int) time.Time {
		return time.Date(2026, 1, 2, 3, 4, 5, n*1000, time.Local)
	}
	for _, f := range []job.Flight{
		{
			Rank: 2, Size: 3, Host: "b", At: at(100), Why: "stalled: rank 1\nmore", Progress: []world.Progress{{Comm: "dp", Rank: 2, Seq: 7, Done: 6, Op: "HcclAllReduce float32[5] sum"}},
			Launches: []acl.Launched{{At: at(10), Device: 2, Stream: 4, Number: 9, Operator: "aclnnAdd"}},
		},
		{
			Rank: 0, Size: 3, Host: "a", At: at(90), Why: "stalled: rank 1", Progress: []world.Progress{{Comm: "dp", Seq: 7, Done: 6, Op: "HcclAllReduce float32[5] sum"}},
			Launches: []acl.Launched{{At: at(5), Stream: 3, Number: 8, Operator: "aclnnMul", Ended: true}},
			Queued:   []hccl.Queued{{At: at(7), Comm: "dp", Size: 3, Stream: 3, Number: 7, Call: "HcclAllReduce float32[5] sum"}},
		},
	} {
		content, err := json.Marshal(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "flight-rank-"+string(rune('0'+f.Rank))+"-of-3.json"), content, 0o666))
	}
	var out bytes.Buffer
	require.NoError(t, writeFlight(&out, options{flight: dir}))
	require.Equal(t, `03:04:05.000090 rank 0 of 3 on a: stalled: rank 1
03:04:05.000100 rank 2 of 3 on b: stalled: rank 1
no record of ranks [1]: they were killed, are stopped, or had no fault
communicator dp: ranks [0 2] queued 7 (HcclAllReduce float32[5] sum), ended 6
03:04:05.000005 rank 0: aclnnMul, launch 8 of stream 3 of device 0, ended
03:04:05.000007 rank 0: HcclAllReduce float32[5] sum, collective 7 of communicator dp, rank 0 of 3 there, stream 3
03:04:05.000010 rank 2: aclnnAdd, launch 9 of stream 4 of device 2, not known to have ended
`, out.String())
	out.Reset()
	require.NoError(t, writeFlight(&out, options{flight: dir, json: true}))
	var s story
	require.NoError(t, json.Unmarshal(out.Bytes(), &s))
	require.Equal(t, []int{1}, s.Missing)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "flight-rank-1-of-3.json"), []byte("{"), 0o666))
	require.ErrorContains(t, writeFlight(&out, options{flight: dir}), "flight-rank-1-of-3.json")
	require.ErrorContains(t, writeFlight(&out, options{flight: t.TempDir()}), "no flight records")
}
