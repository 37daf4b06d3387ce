package autograd

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Offload keeps in page-locked host memory what checkpoints read from outside, such as the inputs of layers: with a checkpoint per layer, the
// device then holds the activations of one layer, and inputs of two. Values are copied by a stream of their own, beside the kernels, and
// brought back while the layer after is computed again.
//
// Give it to the tapes of all steps, one after another (Options.Offload); its host memory is used again. It serves one goroutine. Steps
// that are captured as a graph need an Offload of their own, which other steps do not use.
type Offload struct {
	st    *acl.Stream
	least int
	free  map[int][]*acl.HostBuffer
	all   []*acl.HostBuffer
}

// NewOffload makes an Offload for tensors of a device. Those of fewer bytes than least stay there.
func NewOffload(dev *acl.Device, least int) (*Offload, error) {
	st, err := dev.NewStream()
	if err != nil {
		return nil, fmt.Errorf("autograd: offload: %w", err)
	}
	return &Offload{st: st, least: least, free: map[int][]*acl.HostBuffer{}}, nil
}

// HostBytes returns how much host memory is held.
func (o *Offload) HostBytes() (n int) {
	for _, h := range o.all {
		n += h.Size()
	}
	return n
}

// Close waits for the copies and frees the host memory. The tapes must be closed.
func (o *Offload) Close() error {
	var errs []error
	for _, h := range o.all {
		errs = append(errs, h.Close())
	}
	o.all, o.free = nil, nil
	return errors.Join(append(errs, o.st.Close())...)
}

// saved is a value that is on the host too, or only there.
type saved struct {
	v      *Var
	host   *acl.HostBuffer
	loaded *acl.Event // after the copy back, until the tape's stream waits for it
}

// take returns host memory of n bytes. Copies into it come after all earlier ones, as they are of one stream.
func (o *Offload) take(n int) (*acl.HostBuffer, error) {
	if list := o.free[n]; len(list) > 0 {
		o.free[n] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	h, err := o.st.Device().MallocHost(n)
	if err == nil {
		o.all = append(o.all, h)
	}
	return h, err
}

func (o *Offload) give(h *acl.HostBuffer) {
	if h != nil {
		o.free[h.Size()] = append(o.free[h.Size()], h)
	}
}

// save begins to copy the value of a variable to the host, unless it is small, a view, or saved already.
func (t *Tape) save(v *Var) {
	o, m := t.opts.Offload, v.mem
	if o == nil || m == nil || t.err != nil || m.closer != v.Value || v.Value.Bytes() < max(o.least, 1) {
		return
	}
	if m.saved == nil {
		host, err := o.take(v.Value.Bytes())
		if err == nil {
			err = errors.Join(o.st.WaitStream(t.st), o.st.Copy(host, v.Value.Buffer(), v.Value.Bytes()))
		}
		if err != nil {
			t.Fail(fmt.Errorf("offload of %v: %w", v, err))
			return
		}
		m.saved = &saved{v: v, host: host}
	}
	if m.saved.v == v {
		m.checkpoints++
	}
	t.evict(m)
}

// evict frees the device memory of a value that only checkpoints need. The memory is used again after the copy.
func (t *Tape) evict(m *memory) {
	if m.saved == nil || m.refs != m.checkpoints || m.closer == nil || t.backward {
		return
	}
	t.do(m.closer.Close)
	m.closer, m.saved.v.Value = nil, nil
}

// load begins to bring back the values that a checkpoint reads.
func (t *Tape) load(n *node) {
	for _, v := range n.inputs {
		m := v.mem
		if m == nil || m.saved == nil || v.Value != nil || t.err != nil {
			continue
		}
		o := t.opts.Offload
		x, err := aclnn.New(t.st, v.like.DType(), v.like.Shape()...)
		if err == nil {
			m.closer, v.Value = x, x
			err = errors.Join(o.st.WaitStream(t.st), o.st.Copy(x.Buffer(), m.saved.host, x.Bytes()))
		}
		if err == nil {
			m.saved.loaded, err = o.st.Record()
		}
		o.give(m.saved.host)
		m.saved.host = nil
		if err != nil {
			t.Fail(fmt.Errorf("offload of %v: %w", v.like, err))
		}
	}
}

// restore has the stream wait for the values of a checkpoint, and begins to bring back those of the one before it.
func (t *Tape) restore(n *node) {
	if t.opts.Offload == nil {
		return
	}
	t.load(n)
	for _, v := range n.inputs {
		if m := v.mem; m != nil && m.saved != nil && m.saved.loaded != nil {
			t.do(func() error { return errors.Join(t.st.Wait(m.saved.loaded), m.saved.loaded.Close()) })
			m.saved.loaded = nil
		}
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		if t.nodes[i].checkpoint {
			t.load(t.nodes[i])
			return
		}
	}
}

// settle returns what a value has on the host when nobody needs it any more.
func (t *Tape) settle(m *memory) {
	if m.saved == nil {
		return
	}
	t.opts.Offload.give(m.saved.host)
	if m.saved.loaded != nil {
		t.Fail(m.saved.loaded.Close())
	}
	m.saved = nil
}
