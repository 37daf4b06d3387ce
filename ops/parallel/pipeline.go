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

// Stage computes this rank's part of a pipelined model. Both methods queue work and do not wait.
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

// Pipeline runs the stages of a model, one per rank, with the 1F1B schedule: each rank first runs
// as many forward micro-batches as there are stages after it, then alternates one forward and one
// backward, and finally runs the remaining backwards. Stage s of n holds at most n − s inputs at a
// time, regardless of the number of micro-batches.
type Pipeline struct {
	comm  PeerCommunicator
	dt    aclnn.DType
	shape []int64
}

// NewPipeline makes a pipeline whose stages pass on activations of one dtype and shape, those of
// one micro-batch. comm may be nil for a single stage.
func NewPipeline(comm PeerCommunicator, dt aclnn.DType, shape ...int64) *Pipeline {
	return &Pipeline{comm: comm, dt: dt, shape: shape}
}

// place returns the stage of this rank and the number of stages.
func (p *Pipeline) place() (stage, stages int) {
	if p.comm == nil {
		return 0, 1
	}
	return p.comm.Rank(), p.comm.Size()
}

// phase is the kind of an action.
type phase int

const (
	forward phase = iota
	backward
	exchange
)

// action is one step of a rank's program: a computation, or a batch of transfers.
type action struct {
	phase phase
	micro int // of a computation; unused for transfers
	batch []link
}

// link is a transfer of a schedule: the activation of a micro-batch to the next stage, or its
// gradient to the previous one.
type link struct {
	phase   phase // forward or backward
	micro   int
	receive bool
}

// schedule returns the program of a stage. Transfers that neighbours make in opposite directions at
// the same time go into one batch; as separate calls on a stream they would deadlock.
func schedule(stage, stages, micros int) (program []action) {
	first, last := stage == 0, stage == stages-1
	transfer := func(list ...link) {
		var batch []link
		for _, l := range list {
			// Activations come from the previous stage, gradients from the next.
			upstream := l.receive == (l.phase == forward)
			if l.micro < micros && !(upstream && first) && !(!upstream && last) {
				batch = append(batch, l)
			}
		}
		if len(batch) > 0 {
			program = append(program, action{phase: exchange, batch: batch})
		}
	}
	compute := func(m phase, micro int) { program = append(program, action{phase: m, micro: micro}) }

	ahead := min(stages-stage-1, micros)
	for i := range ahead {
		transfer(link{forward, i, true})
		compute(forward, i)
		transfer(link{forward, i, false})
	}
	if ahead < micros {
		transfer(link{forward, ahead, true})
	}
	for i := range micros - ahead {
		compute(forward, ahead+i)
		transfer(link{forward, ahead + i, false}, link{backward, i, true})
		compute(backward, i)
		transfer(link{backward, i, false}, link{forward, ahead + i + 1, true})
	}
	for i := micros - ahead; i < micros; i++ {
		transfer(link{backward, i, true})
		compute(backward, i)
		transfer(link{backward, i, false})
	}
	return program
}

// Run takes micros micro-batches forward and backward through the pipeline. All ranks call it with
// the same number. It queues work and waits only if the communicator does. After an error the
// transfers of the ranks no longer match, so the communicator must be closed.
func (p *Pipeline) Run(ctx context.Context, st *acl.Stream, micros int, stage Stage) error {
	if err := given("pipeline", p, st, p); err != nil {
		return err
	}
	switch {
	case ctx == nil || stage == nil:
		return fmt.Errorf("pipeline: %w", check.Invalid("the context or the stage is nil"))
	case micros < 1:
		return fmt.Errorf("pipeline: %w", check.Invalid("%d micro-batches", micros))
	}
	at, stages := p.place()
	r := &pipelineRun{
		p: p, ctx: ctx, st: st, stage: stage, at: at, last: at == stages-1,
		inputs: map[int]*aclnn.Tensor{}, outputs: map[int]*aclnn.Tensor{},
		dInputs: map[int]*aclnn.Tensor{}, dOutputs: map[int]*aclnn.Tensor{},
	}
	var err error
	for _, a := range schedule(at, stages, micros) {
		if err = r.do(a); err != nil {
			err = fmt.Errorf("pipeline: stage %d of %d: %w", at, stages, err)
			break
		}
	}
	return errors.Join(err, r.free())
}

// pipelineRun holds the tensors of one Run, by micro-batch.
type pipelineRun struct {
	p                                  *Pipeline
	ctx                                context.Context
	st                                 *acl.Stream
	stage                              Stage
	at                                 int
	last                               bool
	inputs, outputs, dInputs, dOutputs map[int]*aclnn.Tensor
}

func (r *pipelineRun) do(a action) error {
	switch a.phase {
	case forward:
		out, err := r.make(r.outputs, a.micro, !r.last)
		if err == nil {
			err = r.stage.Forward(r.ctx, r.st, a.micro, r.inputs[a.micro], out)
		}
		if err != nil {
			return fmt.Errorf("forward of micro-batch %d: %w", a.micro, err)
		}
		return nil
	case backward:
		dIn, err := r.make(r.dInputs, a.micro, r.at > 0)
		if err == nil {
			err = r.stage.Backward(r.ctx, r.st, a.micro, r.dOutputs[a.micro], dIn)
		}
		if err != nil {
			return fmt.Errorf("backward of micro-batch %d: %w", a.micro, err)
		}
		return errors.Join(r.drop(r.inputs, a.micro), r.drop(r.dOutputs, a.micro))
	}
	return r.exchange(a.batch)
}

// exchange queues a batch of transfers and frees the sent tensors in stream order.
func (r *pipelineRun) exchange(batch []link) error {
	var messages []hccl.Message
	for _, l := range batch {
		var t *aclnn.Tensor
		var err error
		switch {
		case l.phase == forward && l.receive:
			if t, err = r.make(r.inputs, l.micro, true); err == nil {
				messages = append(messages, hccl.RecvFrom(r.at-1, t))
			}
		case l.phase == forward:
			messages = append(messages, hccl.SendTo(r.at+1, r.outputs[l.micro]))
		case l.receive:
			if t, err = r.make(r.dOutputs, l.micro, true); err == nil {
				messages = append(messages, hccl.RecvFrom(r.at+1, t))
			}
		default:
			messages = append(messages, hccl.SendTo(r.at-1, r.dInputs[l.micro]))
		}
		if err != nil {
			return err
		}
	}
	if err := r.p.comm.Exchange(r.st, messages...); err != nil {
		return fmt.Errorf("exchange with the neighbours: %w", err)
	}
	var errs []error
	for _, l := range batch {
		switch {
		case l.receive:
		case l.phase == forward:
			errs = append(errs, r.drop(r.outputs, l.micro))
		default:
			errs = append(errs, r.drop(r.dInputs, l.micro))
		}
	}
	return errors.Join(errs...)
}

// make allocates a tensor for a micro-batch, or returns nil at either end of the pipeline.
func (r *pipelineRun) make(in map[int]*aclnn.Tensor, micro int, wanted bool) (*aclnn.Tensor, error) {
	if !wanted {
		return nil, nil
	}
	t, err := aclnn.New(r.st, r.p.dt, r.p.shape...)
	if err == nil {
		in[micro] = t
	}
	return t, err
}

func (r *pipelineRun) drop(in map[int]*aclnn.Tensor, micro int) error {
	t := in[micro]
	delete(in, micro)
	return t.Close()
}

// free releases the tensors that remain after an error.
func (r *pipelineRun) free() error {
	var errs []error
	for _, set := range []map[int]*aclnn.Tensor{r.inputs, r.outputs, r.dInputs, r.dOutputs} {
		for _, t := range set {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}
