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
	// the backward pass. 0 means 32 MiB. A Trainer computes those of a head with an adapter at once.
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

// special reports whether the loss is more than that of a plain product: the head has an adapter, samples have their own, or logits are looked at.
func (m *Model) special() bool {
	return m.detect || m.multi != nil || m.adapter != nil && len(m.adapter.pairs[m.head.weight]) > 0
}

// chunks reports whether the logits of a micro-batch are computed in parts, so that the head computes the loss at once. In a captured step an adapter of the head has
// them whole, as the host weights the losses of parts by their labels.
func (m *Model) chunks(u *micro) bool {
	rows, labelled := int64(0), 0
	for _, part := range u.in.parts {
		rows, labelled = rows+part.rows, labelled+part.labelled
	}
	return labelled > 0 && rows > m.chunkRows() && !(m.feed != nil && m.special())
}

// chunkRows is how many rows have their logits at a time.
func (m *Model) chunkRows() int64 {
	limit := m.memory.LogitBytes
	if limit == 0 {
		limit = 32 << 20
	}
	return max(limit/(m.head.weight.local()[0]*int64(m.dt.Size())), 1)
}
