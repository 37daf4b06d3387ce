package ccl

import "github.com/goascend/cann/internal/emu/rt"

// planned describes a collective for the schedule.
func (w *work) planned() *rt.Planned {
	p := &rt.Planned{Collective: w.plan.call, Comm: w.c.name, Rank: w.c.rank, Ranks: w.c.size}
	if e, ok := elementOf(w.plan.header.Type); ok {
		p.Count = w.plan.header.Count * e.size
	}
	pairs := map[int]int{} // places in p.Messages, by peer
	message := func(peer int) *rt.Messages {
		at, ok := pairs[peer]
		if !ok {
			at = len(p.Messages)
			pairs[peer], p.Messages = at, append(p.Messages, rt.Messages{Peer: peer})
		}
		return &p.Messages[at]
	}
	for _, f := range w.plan.phases {
		for _, s := range f.sends {
			p.Sent += s.part.size
			if f.pairs {
				message(s.peer).Sent += s.part.size
			}
		}
		for _, r := range f.receives {
			p.Received += r.part.size
			if f.pairs {
				message(r.peer).Received += r.part.size
			}
		}
	}
	return p
}

// assume takes the place of run while a schedule is written. The peers exist on paper only: each of them does what this rank
// does, so that from a peer arrives what this rank sends to it, and a reduction leaves this rank's elements. Large parts only find
// their memory.
func (w *work) assume() error {
	defer w.drop()
	for i := range w.plan.phases {
		p := &w.plan.phases[i]
		for _, m := range p.local {
			if err := w.move(m.to, m.from); err != nil {
				return err
			}
		}
		if p.reduce {
			if err := w.move(p.target, p.own); err != nil {
				return err
			}
			continue
		}
		for k, r := range p.receives {
			from := r.part
			if k < len(p.sends) && p.sends[k].peer == r.peer && p.sends[k].part.size == r.part.size {
				from = p.sends[k].part
			}
			if err := w.move(r.part, from); err != nil {
				return err
			}
		}
		for _, s := range p.sends {
			if err := w.move(s.part, s.part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *work) move(to, from part) error {
	x := exchange{memory: w.memory}
	target, err := x.bytes(to)
	if err != nil {
		return err
	}
	source, err := x.bytes(from)
	if err == nil && to != from && w.c.library.rt.Schedule.Small(to.size) {
		copy(target, source)
	}
	return err
}
