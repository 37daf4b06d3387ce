package nn

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// plan queues a call for the schedule. Its memory must be there as always, but only small calls of integers are computed, as programs read
// their results, and numbers of rows are assumed.
func (l *Library) plan(t *rt.Thread, s *rt.Stream, e *op.Executor, workspace uint64) rt.Code {
	for _, p := range e.Call.Stages() {
		if p.Collective != nil {
			if code := l.collect(t, p.Collective, workspace, s.Handle()); code != 0 {
				return code
			}
		}
	}
	memory, counts, all, integers := s.Memory(), routed(e.Call), uint64(e.Call.WorkspaceSize()), true
	for _, x := range e.Call.AllTensors() {
		all += uint64(distinctBytes(x))
		integers = integers && x.DType.IsInteger()
	}
	computed := integers && l.rt.Schedule.Small(all) && len(e.Call.Stages()) == 0
	task := rt.Task{Name: e.Call.Name(), Planned: planned(e.Call), Run: func() error {
		if computed && counts == nil {
			return e.Execute(memory, workspace, e.Run)
		}
		if err := e.Resolve(memory, workspace); err != nil || counts == nil {
			return err
		}
		counts.write()
		return nil
	}}
	return l.rt.Submit(t, s, task)
}

// planned describes a call.
func planned(c *op.Call) *rt.Planned {
	p := &rt.Planned{Launch: c.Name(), AICPU: leavesAICore(c), Args: map[string]any{}}
	use := map[op.Use]string{op.Read: "r", op.Written: "w", op.Updated: "u"}
	for i, a := range c.Args() {
		name := c.Op.Params[i].Name
		add := func(name string, t *op.Tensor) {
			p.Tensors = append(p.Tensors, rt.PlannedTensor{Name: name, DType: t.DType.String(), Shape: t.Shape, Bytes: distinctBytes(t), Use: use[c.Op.Params[i].Use]})
		}
		switch a := a.(type) {
		case *op.Tensor:
			if a != nil {
				add(name, a)
			}
		case []*op.Tensor:
			for k, t := range a {
				add(fmt.Sprintf("%s[%d]", name, k), t)
			}
		case int64, bool, string:
			p.Args[name] = a
		case []int64:
			if a != nil {
				p.Args[name] = a
			}
		}
	}
	return p
}

// distinctBytes returns the bytes of a tensor, of which repeated elements count once.
func distinctBytes(t *op.Tensor) int64 {
	n := int64(1)
	for i, d := range t.Shape {
		if t.Strides[i] != 0 || d == 0 {
			n *= d
		}
	}
	if t.Permuted() {
		n = op.Count(t.Storage)
	}
	return (n*int64(t.DType.Bits()) + 7) / 8
}

// routedRows are numbers of rows by expert, which programs read to send the rows to other ranks. A schedule has them as a router without
// preferences would make them.
type routedRows struct {
	out        *op.Tensor
	rows       int64
	cumulative bool
}

// routed returns the numbers of rows that a call writes, or nil.
func routed(c *op.Call) *routedRows {
	switch c.Op.Name {
	case "MoeInitRoutingV2":
		if out := c.Optional("expertTokensCountOrCumsumOutOptional"); out != nil {
			return &routedRows{out, c.Tensor("expertIdx").Len(), c.Int("expertTokensCountOrCumsumFlagOptional") == 1}
		}
	case "MoeInitRoutingV3":
		if out := c.Optional("expertTokensCountOrCumsumOut"); out != nil && c.Int("expertTokensNumType") < 2 { // 2 lists experts and their rows
			return &routedRows{out, c.Tensor("expertIdx").Len(), c.Int("expertTokensNumType") == 0}
		}
	case "MoeComputeExpertTokens":
		return &routedRows{c.Tensor("out"), c.Tensor("sortedExperts").Len(), true}
	}
	return nil
}

func (r *routedRows) write() {
	n := r.out.Len()
	if n == 0 || !r.out.Contiguous() {
		return
	}
	for i := range n {
		v := (i + 1) * r.rows / n
		if !r.cumulative {
			v -= i * r.rows / n
		}
		if r.out.DType == dtype.Int64 {
			unsafe.Slice((*int64)(r.out.Data), n)[i] = v
		} else {
			unsafe.Slice((*int32)(r.out.Data), n)[i] = int32(v)
		}
	}
}
