package ccl_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

// TestAssumedPeers: while a schedule is written, a rank joins a communicator of many whose others do not exist. From each of them arrives what
// this rank sends, if it is small, and the schedule has the bytes.
func TestAssumedPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule")
	m := rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 40, SoC: "Ascend910B1", Schedule: path})
	n := &node{l: ccl.NewWithTimeouts(m, patient), f: m.Functions()}
	maps.Copy(n.f, n.l.Functions())
	defer func() { require.Zero(t, n.f["aclFinalize"](new(rt.Thread), nil)) }() // the root waits for its ranks until then
	r := newRank(t, n, 0)
	info := new([4108]byte)
	r.must("HcclGetRootInfo", address(info))
	const ranks = 512
	r.must("HcclCommInitRootInfo", ranks, address(info), 3, address(&r.comm))

	small := r.upload(ones(4))
	all := r.upload(make([]byte, ranks*16))
	r.must("HcclAllGather", small, all, 4, int32Type, r.comm, r.stream)
	require.Zero(t, r.sync(), r.text())
	require.Equal(t, append(ones(4), ones(4)...), r.download(all, 32))

	large := new(uint64)
	r.must("aclrtMalloc", address(large), 1<<33, 0) // the address sanitizer touches an eighth of it
	r.must("HcclAllReduce", *large, *large, 1<<29, int32Type, sum, r.comm, r.stream)
	items := &[2]item{{0, 0, *large, 1 << 20, int32Type, 4}, {1, 0, *large + 1<<30, 1 << 20, int32Type, 2}}
	r.must("HcclBatchSendRecv", address(&items[0]), 2, r.comm, r.stream)
	require.Zero(t, r.sync(), r.text())
	r.must("HcclAllReduce", *large, *large+1<<33-1<<30, 1<<29, int32Type, sum, r.comm, r.stream)
	require.NotZero(t, r.sync(), "the result ends beyond the memory")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var gathered, reduced, sent rt.Planned
	for line := range strings.Lines(string(text)) {
		var p rt.Planned
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		switch {
		case p.Collective == "HcclAllGather":
			gathered = p
		case p.Collective == "HcclAllReduce" && reduced.Collective == "":
			reduced = p
		case len(p.Messages) > 0:
			sent = p
		}
	}
	require.EqualValues(t, 16, gathered.Count)
	require.EqualValues(t, 16*(ranks-1), gathered.Received)
	require.Equal(t, 3, gathered.Rank)
	require.Equal(t, ranks, gathered.Ranks)
	require.EqualValues(t, 1<<31, reduced.Count)
	require.Equal(t, []rt.Messages{{Peer: 4, Sent: 4 << 20}, {Peer: 2, Received: 4 << 20}}, sent.Messages)
	r.must("HcclCommDestroy", r.comm)
}
