package ccl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/testing/freeport"
)

// tableOf returns a rank table of n devices of one server.
func tableOf(n int) string {
	var devices []string
	for i := range n {
		devices = append(devices, fmt.Sprintf(`{"device_id":"%d","rank_id":"%d"}`, i, i))
	}
	return `{"version":"1.0","status":"completed","server_count":"1","server_list":[{"server_id":"a","device":[` + strings.Join(devices, ",") + `]}]}`
}

// save writes a table to a file and returns its path as a call argument.
func save(t *testing.T, table string) uint64 {
	path := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(path, []byte(table), 0o600))
	text := append([]byte(path), 0)
	t.Cleanup(func() { runtime.KeepAlive(text) })
	return address(&text[0])
}

// usePort makes rank 0 of rank tables listen on a free port and returns it.
func usePort(t *testing.T) string {
	free := freeport.Number(t, freeport.Free(t))
	t.Setenv("HCCL_IF_BASE_PORT", free)
	return free
}

// barrier runs HcclBarrier and synchronizes the stream.
func (r *rank) barrier() int32 {
	if code := r.call("HcclBarrier", r.comm, r.stream); code != 0 {
		return code
	}
	return r.sync()
}

// TestTableOfRanks checks that the ranks of a table connect in their first collective, in one
// process and in several, and that they can do so again right after destroying the communicator.
func TestTableOfRanks(t *testing.T) {
	for _, processes := range []bool{false, true} {
		t.Run(fmt.Sprintf("processes=%v", processes), func(t *testing.T) {
			usePort(t)
			path := save(t, tableOf(3))
			n := newNode(t, patient)
			var all []*rank
			for i := range 3 {
				if processes && i > 0 {
					n = newNode(t, patient)
				}
				all = append(all, newRank(t, n, i))
			}
			for range 20 {
				for _, r := range all { // one after the other: this call does not wait for peers
					comm := new(uint64)
					r.must("HcclCommInitClusterInfo", path, uint64(r.id), address(comm))
					r.comm = *comm
					require.EqualValues(t, 7, r.call("HcclCommInitClusterInfo", path, uint64(r.id), address(comm)), "a second one on the device")
					require.Contains(t, r.text(), "hccl_world_group")
				}
				each(all, func(r *rank) { require.Zero(t, r.barrier(), r.text()) })
				each(all, func(r *rank) { r.close() })
			}
		})
	}
}

// TestBadTables checks that the error of an unusable table names the wrong field.
func TestBadTables(t *testing.T) {
	r := newRank(t, newNode(t, patient), 1)
	replaced := func(old, new string) string {
		table := strings.Replace(tableOf(4), old, new, 1)
		require.NotEqual(t, tableOf(4), table)
		return table
	}
	comm := new(uint64)
	for _, c := range []struct {
		table string
		rank  uint64
		code  int32
		text  string
	}{
		{replaced("completed", "initializing"), 1, 4, "initializing"},
		{replaced(`"1.0"`, `"3.0"`), 1, 4, "version"},
		{replaced(`count":"1"`, `count":"2"`), 1, 4, "server_count"},
		{replaced(`"rank_id":"3"`, `"rank_id":3`), 1, 4, "number"},
		{replaced(`"rank_id":"3"`, `"rank_id":"2"`), 1, 4, "occurs twice"},
		{replaced(`"rank_id":"3"`, `"rank_id":"4"`), 1, 4, "ranks 0 to 4 on 4"},
		{replaced(`"rank_id":"3"`, `"rank_id":"x"`), 1, 4, "no number"},
		{replaced(`"device_id":"3"`, `"device_id":"-3"`), 1, 4, "device_id"},
		{replaced(`"1.0"`, `"1.2"`), 1, 4, "super_device_id"},
		{strings.NewReplacer(`"1.0"`, `"1.2"`, `"rank_id"`, `"super_device_id":"x","rank_id"`).Replace(tableOf(4)), 1, 4, `super_device_id "x" is no number`},
		{replaced(`"server_id":"a"`, `"server_id":""`), 1, 4, "server_id"},
		{`{"version":"1.0","status":"completed","server_list":[]}`, 0, 4, "no devices"},
		{"[", 0, 4, "JSON"},
		{tableOf(4), 4, 1, "rank 4 is not in the table"},
		{tableOf(4), 2, 7, "device 2 of its server, and device 1 is set"},
	} {
		require.Equal(t, c.code, r.call("HcclCommInitClusterInfo", save(t, c.table), c.rank, address(comm)), c.table)
		require.Contains(t, r.text(), c.text)
	}
	require.EqualValues(t, 2, r.call("HcclCommInitClusterInfo", 0, 0, address(comm)))
	long := append([]byte(strings.Repeat("x", 5000)), 0)
	require.EqualValues(t, 1, r.call("HcclCommInitClusterInfo", address(&long[0]), 0, address(comm)))
	require.EqualValues(t, 4, r.call("HcclCommInitClusterInfo", address(&long[1000]), 0, address(comm)))
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(tableOf(2)))
	f.Add([]byte(`{"version":"1.2","server_list":[{"device":[{}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := ccl.ParseTable(text)
		if err == nil {
			require.Positive(t, n)
		}
	})
}

// TestPartIDs: sub-communicators that a program makes at once have ids of their own.
func TestPartIDs(t *testing.T) {
	next, seen, all := ccl.PartIDs(), sync.Map{}, sync.WaitGroup{}
	for range 4 {
		all.Go(func() {
			for range 1000 {
				_, again := seen.LoadOrStore(next("7/[0 1]"), true)
				assert.False(t, again)
			}
		})
	}
	all.Wait()
	assert.Equal(t, "/7/[0 1]/4001", next("7/[0 1]"))
}

// TestPartsAgain checks that a sub-communicator of the same ranks can be made again, even while
// a peer has not yet destroyed the previous one.
func TestPartsAgain(t *testing.T) {
	for world, make := range worlds {
		t.Run(world, func(t *testing.T) {
			all := make(t, 3, patient)
			config := newConfig()
			each(all[:2], func(r *rank) {
				own := config
				for range 3 {
					parent, part, ids := r.comm, new(uint64), []uint32{1, 0}
					r.must("HcclCreateSubCommConfig", address(&parent), 2, address(&ids[0]), 7, uint64(1-r.id), address(&own), address(part))
					sub := *r
					sub.comm = *part
					require.Zero(r.tb, sub.barrier(), sub.text())
					sub.close()
				}
			})
		})
	}
}

// TestInitAllRefuses checks that a failed HcclCommInitAll leaves nothing behind.
func TestInitAllRefuses(t *testing.T) {
	n := newNode(t, patient)
	r := newRank(t, n, 0)
	devices, comms := []int32{0, 1, 2}, make([]uint64, 3)
	call := func(ndev int, d []int32) int32 {
		return r.call("HcclCommInitAll", uint64(ndev), address(&d[0]), address(&comms[0]))
	}
	require.EqualValues(t, 1, call(0, devices))
	require.EqualValues(t, 1, call(3, []int32{0, 1, 1}))
	require.EqualValues(t, 1, call(3, []int32{0, 1, 8}))
	require.EqualValues(t, 1, call(3, []int32{0, 1, -1}))
	require.EqualValues(t, 1, call(9, make([]int32, 9)))
	live, _ := n.l.Live()
	require.Zero(t, live)
	require.Zero(t, call(3, devices), r.text())
	for _, c := range comms {
		r.must("HcclCommDestroy", c)
	}
}

// TestRootEndsWithItsProcess checks that no goroutine of a root outlives aclFinalize.
func TestRootEndsWithItsProcess(t *testing.T) {
	n := newNode(t, patient)
	r := newRank(t, n, 0)
	var info [4108]byte
	r.must("HcclGetRootInfo", address(&info))
	_, roots := n.l.Live()
	require.Equal(t, 1, roots)
	r.must("aclFinalize")
	_, roots = n.l.Live()
	require.Zero(t, roots)
	r.must("aclInit", 0)
	newRank(t, n, 0).must("HcclGetRootInfo", address(&info)) // the end of the test finalizes again
}

// TestRootGivesUp checks that a root stops waiting for the others when its own rank fails.
func TestRootGivesUp(t *testing.T) {
	n := newNode(t, patient)
	r := newRank(t, n, 0)
	var info [4108]byte
	r.must("HcclGetRootInfo", address(&info))
	// Rank 0 joins twice: the root answers both and closes.
	codes := make(chan int32, 2)
	for device := range 2 {
		go func() {
			x := newRank(t, n, device)
			copied, comm := info, new(uint64)
			codes <- x.call("HcclCommInitRootInfo", 3, address(&copied), 0, address(comm))
		}()
	}
	require.EqualValues(t, 4, <-codes)
	require.EqualValues(t, 4, <-codes)
	require.Eventually(t, func() bool { _, roots := n.l.Live(); return roots == 0 }, watchdog, time.Millisecond)
}
