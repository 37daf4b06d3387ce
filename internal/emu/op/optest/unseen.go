package optest

import (
	"fmt"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// Unseen runs phase one of the recorded calls of one operator. It lists the parameters at which the operator looks in none of
// them, so that their values go unnoticed, unless a rule of CANN's sources limits them.
func Unseen(calls []AcceptedCall) (names []string, err error) {
	if len(calls) == 0 {
		return nil, nil
	}
	o := op.Find(calls[0].Operator)
	unseen := make(map[string]bool)
	for _, p := range o.Params {
		unseen[p.Name] = true
	}
	rules, err := acceptance.Rules(o.Name, home(o.Name))
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		mention(r.Cond, unseen)
	}
	for _, a := range calls {
		call, err := a.of(o)
		if err != nil {
			return nil, err
		}
		ranks, err := call.executed()
		if err != nil {
			return nil, fmt.Errorf("the recorded call of aclnn%s does not run: %w; record it anew", o.Name, err)
		}
		ranks = append(ranks, call.tiled()...)
		for _, e := range ranks {
			kept := make(map[string]bool)
			for _, n := range e.Call.Unseen() {
				kept[n] = unseen[n]
			}
			unseen = kept
		}
	}
	for _, p := range o.Params {
		if unseen[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// executed runs both phases of the call.
func (r recorded) executed() ([]*op.Executor, error) {
	var memory kerneltest.Arena
	defer memory.Free()
	run := replay{op: r.op}
	ranks, workspaces, err := r.prepare(&memory, &run, start{}, Tested[r.op.Name])
	if err != nil {
		return nil, err
	}
	run.fill(start{})
	return ranks, Together(ranks, workspaces)
}

// tiled runs phase one alone, with the checks of sizes that the chip has, which most recorded calls are too small to pass.
func (r recorded) tiled() (ranks []*op.Executor) {
	var memory kerneltest.Arena
	defer memory.Free()
	for rank, args := range r.ranks {
		c := op.NewCall(r.op, (&replay{op: r.op}).build(&memory, args, start{}), op.Env{Join: r.join(rank), Links: new(op.Links), Chip: home(r.op.Name), Tiled: true})
		op.NewExecutor(Tested[r.op.Name], c)
		ranks = append(ranks, &op.Executor{Call: c})
	}
	return ranks
}

// mention removes the parameters that a condition names.
func mention(n *acceptance.Node, names map[string]bool) {
	if n.Op == acceptance.Argument {
		delete(names, n.Name)
	}
	for _, a := range n.Args {
		mention(a, names)
	}
}
