package acl

import "github.com/goascend/cann/acl/internal/pool"

// AllocatorSnapshot describes the cache of a device at one moment: which memory has
// which holder. It is made for encoding/json.
type AllocatorSnapshot struct {
	Device   int                `json:"device"`
	Stats    AllocatorStats     `json:"stats"`
	Segments []AllocatorSegment `json:"segments"` // by address
}

// AllocatorSegment is one piece of memory that the device gave.
type AllocatorSegment struct {
	Address uint64           `json:"address"`
	Bytes   int              `json:"bytes"`
	Blocks  []AllocatorBlock `json:"blocks"` // by address, without gaps
}

// AllocatorBlock is a part of a segment.
type AllocatorBlock struct {
	Address uint64     `json:"address"`
	Bytes   int        `json:"bytes"`
	State   BlockState `json:"state"`
	// Requested is the number of bytes asked for, of a used block.
	Requested int `json:"requested,omitempty"`
	// Stream is CANN's number of the stream in whose order the block is given out, -1 for any.
	Stream int `json:"stream"`
	// Holder names the owner of the block: "buffer", "arena" or "workspace", and with Config.LeakStacks
	// the stack that allocated a buffer; "" of a block that is not used.
	Holder string `json:"holder,omitempty"`
}

// BlockState is whether a block can be given out.
type BlockState string

// States of a block.
const (
	BlockUsed    BlockState = "used"    // an open buffer, a workspace, or what a graph holds
	BlockWaiting BlockState = "waiting" // closed, and streams may still use it
	BlockKept    BlockState = "kept"    // scratch memory of a captured graph, which no other work gets
	BlockFree    BlockState = "free"
	// BlockUnmapped are addresses without memory, of Config.Expandable.
	BlockUnmapped BlockState = "unmapped"
)

// Snapshot lists the segments of the cache and the holders of their blocks.
func (a *Allocator) Snapshot() AllocatorSnapshot {
	if !a.made() {
		return AllocatorSnapshot{Device: -1}
	}
	c := a.x.scope.chip
	s := AllocatorSnapshot{Device: c.id, Stats: a.Stats(), Segments: []AllocatorSegment{}}
	for _, from := range c.pool.Layout() {
		to := AllocatorSegment{Address: from.Address, Bytes: int(from.Size)}
		for _, b := range from.Blocks {
			to.Blocks = append(to.Blocks, blockOf(b))
		}
		s.Segments = append(s.Segments, to)
	}
	return s
}

func blockOf(b pool.BlockInfo) AllocatorBlock {
	states := map[pool.State]BlockState{pool.Used: BlockUsed, pool.Waiting: BlockWaiting, pool.Kept: BlockKept, pool.Free: BlockFree, pool.Unmapped: BlockUnmapped}
	block := AllocatorBlock{Address: b.Address, Bytes: int(b.Size), State: states[b.State], Requested: int(b.Requested), Stream: -1, Holder: b.Label}
	switch s := b.Stream.(type) {
	case *queue:
		block.Stream = s.id
	case *member:
		block.Stream = s.q.id
	}
	if block.Holder == "" && b.Requested > 0 {
		block.Holder = "buffer"
	}
	return block
}
