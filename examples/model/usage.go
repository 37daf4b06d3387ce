package model

import "github.com/goascend/cann/aclnn"

// Held counts the bytes that a model and its optimiser hold on this rank's device between steps.
type Held struct {
	Weights   int `json:"weights"` // that layers read
	Masters   int `json:"masters"` // in float32, beside weights of another type
	Gradients int `json:"gradients"`
	Moments   int `json:"moments"`
}

// Total is the sum.
func (h Held) Total() int { return h.Weights + h.Masters + h.Gradients + h.Moments }

// Held returns what the model and the optimiser hold. The weights of an adapter's base belong to it.
func (o *Optimizer) Held() (h Held) {
	bytes := func(t *aclnn.Tensor) int {
		if t == nil {
			return 0
		}
		return t.Bytes()
	}
	add := func(slots []slot) {
		for _, s := range slots {
			if s.copy == nil {
				h.Weights += bytes(s.master)
			} else {
				h.Weights, h.Masters = h.Weights+bytes(s.copy), h.Masters+bytes(s.master)
			}
			h.Gradients += bytes(s.grad)
		}
	}
	add(o.store.slots())
	if o.adapter != nil {
		add(o.m.store.slots())
	}
	for _, m := range o.moments {
		h.Moments += bytes(m.average) + bytes(m.square)
	}
	return h
}

// Peaks are the largest numbers of bytes in use on this rank's device in the phases of steps, with what is held between steps.
type Peaks struct {
	Forward  int `json:"forward"`
	Backward int `json:"backward"`
	Exchange int `json:"exchange"` // of gradients, after the last backward pass
	Step     int `json:"step"`     // of the optimiser
}

// Largest is the largest of them.
func (p Peaks) Largest() int { return max(p.Forward, p.Backward, p.Exchange, p.Step) }

// Peaks returns the peaks of the steps since the last call (acl.Allocator.TakePeak).
func (m *Model) Peaks() Peaks {
	p := m.peaks
	m.peaks = Peaks{}
	return p
}

// measure begins a phase, which ends when the result is called.
func (m *Model) measure(phase *int) func() {
	a := m.st.Device().Allocator()
	a.TakePeak()
	return func() { *phase = max(*phase, a.TakePeak()) }
}
