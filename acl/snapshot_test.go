package acl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestSnapshot: the blocks cover their segments, and name their holders.
func TestSnapshot(t *testing.T) {
	st := openStream(t)
	dev := st.Device()
	side := acltest.Stream(t, dev)
	kept := malloc(t, st, 1000)
	arena, err := st.NewArena(5000)
	require.NoError(t, err)
	defer func() { require.NoError(t, arena.Close()) }()
	shared, err := st.Malloc(3000)
	require.NoError(t, err)
	require.NoError(t, st.Synchronize(background))
	release := hold(t, side)
	require.NoError(t, side.Memset(shared, 0, 3000))
	require.NoError(t, shared.Close())
	attend(t, st, 64) // needs a workspace

	x := tensors(t, st, 3, 100)
	g := capture(t, st, func() error { return chain(st, 5, x[0], x[1], x[2]) })
	s := dev.Allocator().Snapshot()
	held := map[string]int{}
	states := map[acl.BlockState]int{}
	total := 0
	for _, segment := range s.Segments {
		at := segment.Address
		for _, b := range segment.Blocks {
			assert.Equal(t, at, b.Address, "no gaps")
			at += uint64(b.Bytes)
			states[b.State] += b.Bytes
			held[b.Holder] += b.Requested
			if b.Address == kept.Address() {
				assert.Equal(t, acl.AllocatorBlock{Address: at - uint64(b.Bytes), Bytes: b.Bytes, State: acl.BlockUsed, Requested: 1000, Stream: st.ID(), Holder: "buffer"}, b)
			}
		}
		assert.Equal(t, segment.Address+uint64(segment.Bytes), at)
		total += segment.Bytes
	}
	assert.Equal(t, dev.ID(), s.Device)
	assert.Equal(t, s.Stats.Reserved, total)
	assert.Equal(t, s.Stats.InUse, states[acl.BlockUsed])
	assert.Equal(t, s.Stats.Waiting, states[acl.BlockWaiting])
	assert.Equal(t, s.Stats.Kept, states[acl.BlockKept])
	assert.Equal(t, s.Stats.Cached(), states[acl.BlockFree])
	assert.Equal(t, g.Memory().Scratch, states[acl.BlockKept])
	assert.Equal(t, 5000, held["arena"])
	assert.Positive(t, held["workspace"])
	assert.Positive(t, states[acl.BlockWaiting])
	assert.Equal(t, s.Stats.Allocated, held["buffer"]+held["arena"]+held["workspace"])

	text, err := json.Marshal(s)
	require.NoError(t, err)
	var back acl.AllocatorSnapshot
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, s, back)
	var picture bytes.Buffer
	require.NoError(t, s.WriteTrace(&picture))
	var events []struct {
		Name     string  `json:"name"`
		Phase    string  `json:"ph"`
		Start    float64 `json:"ts"`
		Duration float64 `json:"dur"`
		Thread   int     `json:"tid"`
	}
	require.NoError(t, json.Unmarshal(picture.Bytes(), &events))
	drawn, rows := map[int]float64{}, 0
	for _, e := range events {
		if e.Phase == "M" {
			rows++
			continue
		}
		assert.Equal(t, drawn[e.Thread], e.Start, "blocks stand side by side")
		drawn[e.Thread] += e.Duration
	}
	require.Equal(t, 1+len(s.Segments), rows)
	for i, segment := range s.Segments {
		assert.Equal(t, float64(segment.Bytes)/1024, drawn[i+1])
	}
	assert.Contains(t, picture.String(), fmt.Sprintf(`"buffer of stream %d"`, st.ID()))
	release()
	require.Equal(t, -1, new(acl.Allocator).Snapshot().Device)
}

// The cache of a device, as JSON: one buffer in a segment of small blocks.
func ExampleAllocator_Snapshot() {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	buf, err := dev.Malloc(1000)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()
	for _, segment := range dev.Allocator().Snapshot().Segments {
		fmt.Println(segment.Bytes)
		for _, b := range segment.Blocks {
			b.Address = 0 // another one in each process
			text, err := json.Marshal(b)
			fmt.Println(string(text), err)
		}
	}
	// Output:
	// 2097152
	// {"address":0,"bytes":1536,"state":"used","requested":1000,"stream":-1,"holder":"buffer"} <nil>
	// {"address":0,"bytes":2095616,"state":"free","stream":-1} <nil>
}
