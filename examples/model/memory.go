package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/ops/autograd"
)

// Recompute says which activations the backward pass computes again, in place of keeping them from the forward pass.
type Recompute string

const (
	// RecomputeNone keeps all activations that a gradient reads.
	RecomputeNone Recompute = "none"
	// RecomputeAttention keeps of attention and delta nets their input only.
	RecomputeAttention Recompute = "attention"
	// RecomputeBlock keeps of each layer its input only.
	RecomputeBlock Recompute = "block"
	// RecomputeFull keeps of each √n of n layers the input of the first one only; the layers of a group are then recomputed twice.
	RecomputeFull Recompute = "full"
)

// Memory says how training steps save memory. The zero value keeps all activations. No field changes a bit of a gradient, except
// for LogitBytes, which changes the order of sums.
type Memory struct {
	Recompute Recompute // "" is RecomputeNone
	// Offload keeps the inputs of layers in page-locked host memory between the passes, copied beside the kernels. It needs RecomputeBlock.
	Offload bool
	// LogitBytes is how much memory the logits of a part of the tokens may take: more logits are computed in parts, and again in
	// the backward pass. 0 means 32 MiB. Adapters of the output head, and several adapters in one pass, need all logits at once.
	LogitBytes int64
}

// offloadLeast is the size in bytes from which tensors are worth a copy to the host.
const offloadLeast = 1 << 12

// SetMemory lets the following passes save memory. With Offload it makes a stream for the copies. Values that make no sense match acl.ErrInvalidArgument.
func (m *Model) SetMemory(o Memory) error {
	switch o.Recompute {
	case "":
		o.Recompute = RecomputeNone
	case RecomputeNone, RecomputeAttention, RecomputeBlock, RecomputeFull:
	default:
		return fmt.Errorf("model: recompute %q; use none, attention, block or full: %w", o.Recompute, acl.ErrInvalidArgument)
	}
	switch {
	case o.Offload && o.Recompute != RecomputeBlock:
		return fmt.Errorf("model: offloading moves the inputs of recomputed layers, and recompute is %q; use block: %w", o.Recompute, acl.ErrInvalidArgument)
	case o.LogitBytes < 0:
		return fmt.Errorf("model: LogitBytes is %d; it must be positive, or 0 for 32 MiB: %w", o.LogitBytes, acl.ErrInvalidArgument)
	}
	err := m.closeOffload()
	if err == nil && o.Offload {
		m.offload, err = autograd.NewOffload(m.st.Device(), offloadLeast)
	}
	if err == nil {
		m.memory = o
	}
	return err
}

func (m *Model) closeOffload() error {
	if m.offload == nil {
		return nil
	}
	err := m.offload.Close()
	m.offload = nil
	return err
}

var errOffloaded = errors.New("model: a graph would copy to the same host memory as other steps; switch offloading off, or launch the steps")

// group returns how many layers are recomputed together.
func (m *Model) group() int {
	if m.memory.Recompute != RecomputeFull {
		return 1
	}
	return max(1, int(math.Sqrt(float64(len(m.layers)))))
}

// chunks reports whether the logits of so many rows are computed in parts, so that the head computes the loss at once.
func (m *Model) chunks(u *micro) bool {
	if len(u.in.parts) != 1 || u.in.parts[0].labelled == 0 || m.detect || m.multi != nil || m.adapter != nil && len(m.adapter.pairs[m.head.weight]) > 0 {
		return false
	}
	limit := m.memory.LogitBytes
	if limit == 0 {
		limit = 32 << 20
	}
	return u.in.parts[0].rows*m.head.weight.local()[0]*int64(m.dt.Size()) > limit
}
