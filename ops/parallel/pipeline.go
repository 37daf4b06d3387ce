package parallel

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/internal/check"
)

// Stage computes a part of a pipelined model. Its methods queue work and do not wait.
type Stage interface {
	// Forward computes a micro-batch from in to out. In the first stage in is nil and the stage
	// reads its own data; in the last stage out is nil and the stage computes the loss. in stays
	// unchanged until Backward of the same micro-batch has been queued; out must not be used after
	// Forward.
	Forward(ctx context.Context, st *acl.Stream, micro int, in, out *aclnn.Tensor) error
	// Backward computes dIn, the gradient of in, from dOut, the gradient of out, and accumulates
	// the gradients of the parameters. dOut is nil in the last stage, dIn in the first.
	Backward(ctx context.Context, st *acl.Stream, micro int, dOut, dIn *aclnn.Tensor) error
}

// WeightStage is a Stage whose backward pass comes in two parts, as a zero-bubble schedule needs it: Backward computes dIn, for which other
// ranks wait, and may leave the gradients of the parameters to BackwardWeights, which follows later. Until then the tensors in and dOut of the micro-batch stay.
type WeightStage interface {
	Stage
	BackwardWeights(ctx context.Context, st *acl.Stream, micro int) error
}

// Pipeline runs the stages of a model, one or several for each rank, in the order of a PipelineSchedule. With 1F1B, stage s
// of n holds at most n − s + 1 inputs at a time, regardless of the number of micro-batches.
type Pipeline struct {
	comm     PeerCommunicator
	schedule *PipelineSchedule
	rank     int
	program  []action
}

// NewPipeline makes a pipeline of a schedule, which has as many ranks as comm; comm may be nil for one rank. Stage c of rank r of n
// is part c·n + r of the model.
func NewPipeline(comm PeerCommunicator, s *PipelineSchedule) (*Pipeline, error) {
	rank, ranks := 0, 1
	if comm != nil {
		rank, ranks = comm.Rank(), comm.Size()
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("pipeline: %w", check.Invalid("the schedule is nil; use NewPipelineSchedule"))
	case len(s.Steps) != ranks:
		return nil, fmt.Errorf("pipeline: %w", check.Invalid("the schedule is for %d ranks, and the communicator has %d", len(s.Steps), ranks))
	}
	return &Pipeline{comm: comm, schedule: s, rank: rank, program: s.program(rank)}, nil
}

// Run takes the micro-batches of the schedule forward and backward through the stages of this rank, one for each of its chunks. The stages of
// all ranks pass on activations of one dtype and shape, those of one micro-batch, and all ranks call it. A zero-bubble schedule needs stages that are a WeightStage.
// Run queues work and waits only if the communicator does. After an error the
// transfers of the ranks no longer match, so the communicator must be closed.
func (p *Pipeline) Run(ctx context.Context, st *acl.Stream, dt aclnn.DType, shape []int64, stages ...Stage) error {
	if err := given("pipeline", p, st, p); err != nil {
		return err
	}
	switch {
	case p.schedule == nil:
		return fmt.Errorf("pipeline: %w", check.Invalid("it was not made; use NewPipeline"))
	case ctx == nil || len(stages) != p.schedule.Chunks:
		return fmt.Errorf("pipeline: %w", check.Invalid("the context is nil, or there are %d stages for %d chunks", len(stages), p.schedule.Chunks))
	}
	for i, c := range stages {
		_, splits := c.(WeightStage)
		switch {
		case c == nil:
			return fmt.Errorf("pipeline: %w", check.Invalid("stage %d is nil", i))
		case p.schedule.ZeroBubble && !splits:
			return fmt.Errorf("pipeline: %w", check.Invalid("a zero-bubble schedule needs a WeightStage, and stage %d is %T", i, c))
		}
	}
	r := &pipelineRun{Pipeline: p, ctx: ctx, st: st, dt: dt, shape: shape, stages: stages, tensors: map[held]*aclnn.Tensor{}}
	var err error
	for _, a := range p.program {
		if a.step != nil {
			err = r.compute(a.step)
		} else {
			err = r.exchange(a.batch)
		}
		if err != nil {
			err = fmt.Errorf("pipeline: stage %d of %d: %w", p.rank, len(p.schedule.Steps), err)
			break
		}
	}
	return errors.Join(err, r.free())
}

// pipelineRun holds the tensors of one Run.
type pipelineRun struct {
	*Pipeline
	ctx     context.Context
	st      *acl.Stream
	dt      aclnn.DType
	shape   []int64
	stages  []Stage
	tensors map[held]*aclnn.Tensor
}

// held names a tensor of a run: the input or output of a chunk, or its gradient.
type held struct {
	what         kind
	micro, chunk int
}

type kind int

const (
	input kind = iota
	output
	dInput
	dOutput
)

func (r *pipelineRun) compute(s *PipelineStep) error {
	stage, at := r.stages[s.Chunk], r.schedule.stage(r.rank, s.Chunk)
	of := func(what kind) held { return held{what, s.Micro, s.Chunk} }
	var err error
	switch s.Phase {
	case PipelineForward:
		var out *aclnn.Tensor
		if out, err = r.make(of(output), at+1 < r.schedule.stages()); err == nil {
			err = stage.Forward(r.ctx, r.st, s.Micro, r.tensors[of(input)], out)
		}
	case PipelineBackward:
		var dIn *aclnn.Tensor
		if dIn, err = r.make(of(dInput), at > 0); err == nil {
			err = stage.Backward(r.ctx, r.st, s.Micro, r.tensors[of(dOutput)], dIn)
		}
	case PipelineWeights:
		err = stage.(WeightStage).BackwardWeights(r.ctx, r.st, s.Micro)
	}
	if err != nil {
		return fmt.Errorf("%v of micro-batch %d: %w", s.Phase, s.Micro, err)
	}
	if s.Phase == PipelineWeights || s.Phase == PipelineBackward && !r.schedule.ZeroBubble {
		return errors.Join(r.drop(of(input)), r.drop(of(dOutput)))
	}
	return nil
}

// exchange queues a batch of transfers and frees the sent tensors in stream order.
func (r *pipelineRun) exchange(batch []transfer) error {
	var messages []hccl.Message
	var sent []held
	for _, t := range batch {
		name := held{t.tensor(), t.micro, t.chunk}
		if !t.receive {
			messages, sent = append(messages, hccl.SendTo(t.peer, r.tensors[name])), append(sent, name)
			continue
		}
		x, err := r.make(name, true)
		if err != nil {
			return err
		}
		messages = append(messages, hccl.RecvFrom(t.peer, x))
	}
	if err := r.comm.Exchange(r.st, messages...); err != nil {
		return fmt.Errorf("exchange with the neighbours: %w", err)
	}
	var errs []error
	for _, name := range sent {
		errs = append(errs, r.drop(name))
	}
	return errors.Join(errs...)
}

// make allocates a tensor, or returns nil at either end of the pipeline.
func (r *pipelineRun) make(name held, wanted bool) (*aclnn.Tensor, error) {
	if !wanted {
		return nil, nil
	}
	t, err := aclnn.New(r.st, r.dt, r.shape...)
	if err == nil {
		r.tensors[name] = t
	}
	return t, err
}

func (r *pipelineRun) drop(name held) error {
	t := r.tensors[name]
	delete(r.tensors, name)
	return t.Close()
}

// free releases the tensors that remain after an error.
func (r *pipelineRun) free() error {
	var errs []error
	for _, t := range r.tensors {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
