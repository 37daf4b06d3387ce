package optest

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// recorded is a recorded call with its arguments by rank.
type recorded struct {
	op     *op.Operator
	ranks  [][]any
	groups []map[string]op.Communicator
}

// of returns the call of a record.
func (a AcceptedCall) of(o *op.Operator) (recorded, error) {
	r := recorded{op: o, groups: a.Groups}
	for _, of := range slices.Concat([]recordedArgs{a.Args}, a.Peers) {
		args, err := of.decode(o)
		if err != nil {
			return r, err
		}
		r.ranks = append(r.ranks, args)
	}
	return r, nil
}

// with returns the call with other arguments on each rank.
func (r recorded) with(change func(args []any) []any) recorded {
	changed := recorded{op: r.op, groups: r.groups}
	for _, args := range r.ranks {
		changed.ranks = append(changed.ranks, change(args))
	}
	return changed
}

// tensors returns the tensors of one parameter on all ranks.
func (r recorded) tensors(param int) (all []*descriptor) {
	for _, args := range r.ranks {
		all = append(all, descriptors(args[param])...)
	}
	return all
}

// join returns the group of a rank. Every group of a call without groups has one rank.
func (r recorded) join(rank int) func(string) (op.Communicator, error) {
	return func(group string) (op.Communicator, error) {
		if r.groups == nil {
			return alone(group)
		}
		comm, ok := r.groups[rank][group]
		if !ok {
			return comm, fmt.Errorf("rank %d has not joined group %q", rank, group)
		}
		return comm, nil
	}
}

// replay is one execution of a recorded call, in memory of its own.
type replay struct {
	op      *op.Operator
	tensors []replayed
}

// replayed is a tensor of a replay.
type replayed struct {
	param  int
	d      *descriptor
	t      *op.Tensor
	base   unsafe.Pointer
	places []int64
}

// refusal is the answer of phase one to a call that it does not accept.
type refusal struct{ error }

// outputs holds the values of the tensors that a replay wrote, by parameter and member of a list.
type outputs map[int][][]complex128

// start is with what a replay starts beside the values of the record.
type start struct {
	fill      byte            // of the bytes of tensors that are only written
	imaginary bool            // whether complex numbers have imaginary parts
	digits    bool            // whether floating-point numbers have all digits of their types
	chip      acceptance.Chip // where the call runs; 0 is the chip on which tests of the operator run
}

// play runs both phases of a recorded call, and returns the values of the tensors that the operator
// writes. If phase one refuses the call, the error is a refusal.
func (r recorded) play(with start) (out outputs, err error) {
	var memory kerneltest.Arena
	defer func() {
		if beside := memory.Free(); beside != nil && err == nil {
			err = beside
		}
	}()
	run := replay{op: r.op}
	ranks, workspaces, err := r.prepare(&memory, &run, with, Tested[r.op.Name])
	if err != nil {
		return nil, err
	}
	run.fill(with)
	if err := Together(ranks, workspaces); err != nil {
		return nil, err
	}
	return run.outputs(), nil
}

// prepare runs phase one on each rank, with tensors in memory. It returns a refusal if phase one refuses.
func (r recorded) prepare(memory *kerneltest.Arena, run *replay, with start, by op.Prepare) (ranks []*op.Executor, workspaces []uint64, err error) {
	for rank, args := range r.ranks {
		env := op.Env{Join: r.join(rank), Links: new(op.Links), Chip: cmp.Or(with.chip, home(r.op.Name))}
		e, err := op.NewExecutor(by, op.NewCall(r.op, run.build(memory, args, with), env))
		if err != nil {
			return nil, nil, refusal{err}
		}
		if err := e.Call.LaunchErr(); err != nil {
			return nil, nil, refusal{err}
		}
		ranks = append(ranks, e)
		workspaces = append(workspaces, uint64(uintptr(memory.Block(e.Call.WorkspaceSize(), 0))))
	}
	return ranks, workspaces, nil
}

// build makes the tensors of the arguments.
func (r *replay) build(memory *kerneltest.Arena, args []any, with start) []any {
	built := slices.Clone(args)
	for i, arg := range args {
		switch x := arg.(type) {
		case *descriptor:
			built[i] = r.tensor(memory, i, x, with)
		case []*descriptor:
			list := make([]*op.Tensor, len(x))
			for k, d := range x {
				list[k] = r.tensor(memory, i, d, with)
			}
			built[i] = list
		}
	}
	return built
}

// tensor makes the tensor that a descriptor describes.
func (r *replay) tensor(memory *kerneltest.Arena, param int, d *descriptor, with start) *op.Tensor {
	first, n := d.extent()
	fill := byte(0)
	if r.op.Params[param].Use == op.Written {
		fill = with.fill
	}
	room := max(n, op.Count(d.storage())) // a storage may be larger than the view, in a public format too
	if r.op.Name == "TransMatmulWeight" { // it stores the weight in FRACTAL_NZ, which pads it
		room = max(room, op.Count(op.NZShape(d.Shape, false, 32)), op.Count(op.NZShape(d.Shape, true, 32)))
	}
	base := memory.Block((room*int64(d.DType.Bits())+7)/8, fill)
	t := &op.Tensor{
		Shape: slices.Clone(d.Shape), Strides: slices.Clone(d.strides()), Offset: first, DType: d.DType, Format: d.Format,
		Storage: slices.Clone(d.storage()), Addr: uint64(uintptr(base)),
	}
	r.tensors = append(r.tensors, replayed{param: param, d: d, t: t, base: base})
	return t
}

// fill stores the values of the record. It comes after phase one, which reads none and refuses most calls.
func (r *replay) fill(with start) {
	for i := range r.tensors {
		x := &r.tensors[i]
		d := x.d
		x.places = d.places(d.extent())
		if len(d.Values) == 0 {
			continue
		}
		for k, at := range x.places {
			v := complex(d.Values[k%len(d.Values)], 0)
			if with.digits && precision(d.DType) > 0 {
				v = complex(withDigits(real(v), x.param, k), 0)
			}
			if with.imaginary && d.DType.IsComplex() {
				v += complex(0, float64((k+x.param)%3)-.75)
			}
			put(d.DType, x.base, at, v)
		}
	}
}

// outputs reads the tensors that the operator writes. If the operator decides the size of a result,
// only that many values belong to it.
func (r *replay) outputs() outputs {
	out := make(outputs)
	for _, x := range r.tensors {
		if r.op.Params[x.param].Use == op.Read {
			continue
		}
		var v []complex128
		for _, i := range x.places {
			v = append(v, get(x.d.DType, x.base, i))
		}
		if !slices.Equal(x.t.Shape, x.d.Shape) {
			v = v[:min(int64(len(v)), op.Count(x.t.Shape))]
		}
		out[x.param] = append(out[x.param], v)
	}
	return out
}

func (r refusal) Error() string { return fmt.Sprintf("phase one: %v", r.error) }
