package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/simulate"
)

// estimate holds the times of one layout on a chip.
type estimate struct {
	*rehearsal
	step *simulate.Result
}

// time computes how long the schedule of a rehearsal takes.
func (r *rehearsal) time() (*estimate, error) {
	step, err := simulate.Simulation{Chip: r.chip, Entries: r.schedule, Ranks: r.ranks, Places: r.places}.Run()
	return &estimate{r, step}, err
}

func (e *estimate) perDie() float64 {
	return float64(e.tokens) / e.step.Seconds / float64(e.options.simulation.world)
}

// mfu is the part of the chip's peak, for the element type of the model, that the operations of the model take.
func (e *estimate) mfu() float64 {
	return e.operations / e.step.Seconds / float64(e.options.simulation.world) / e.chip.Cube[e.options.elementType(false)]
}

// simulate prints what a step takes, or what memory it needs, or the best layouts.
func (o options) simulate(ctx context.Context, out io.Writer) (err error) {
	chip, err := simulate.ReadChip(o.simulation.chip + o.simulation.plan)
	if err != nil {
		return err
	}
	stages := max(o.layout.PP, 1)
	if o.simulation.search || o.simulation.plan != "" {
		stages = mostStages // of the layouts that are tried
	}
	memory := 1 << 40 // addresses, of which none is touched: what does not fit on the chip is to be counted too
	if o.simulation.search {
		memory = 2 * chip.Capacity // what needs more ends early
	}
	s, err := newSimulator(chip, stages, memory)
	if err != nil {
		return err
	}
	defer job.Close(&err, s)
	if o.simulation.search {
		return s.search(ctx, o, out, os.Stderr)
	}
	r, err := s.rehearse(ctx, o, 0)
	if err != nil {
		return err
	}
	if o.simulation.plan != "" {
		return s.plan(ctx, r, out)
	}
	e, err := r.time()
	if err != nil {
		return err
	}
	if err := e.print(out); err != nil {
		return err
	}
	if o.simulation.trace == "" {
		return nil
	}
	f, err := os.Create(o.simulation.trace)
	if err != nil {
		return err
	}
	defer job.Close(&err, f)
	return e.step.WriteTrace(f)
}

// title describes the training.
func (r *rehearsal) title() string {
	return fmt.Sprintf("%d × %s, %s, %.2f billion parameters in %s, %d tokens a step in rows of %d",
		r.options.simulation.world, r.chip.Name, r.layout, float64(r.config.Parameters())/1e9, r.options.elementType(false), r.options.batch*r.options.seq, r.options.seq)
}

func (e *estimate) print(out io.Writer) error {
	fmt.Fprintf(out, "%s\n%.3f s a step, %.0f tokens/s on each die, MFU %.1f %%\n\n", e.title(), e.step.Seconds, e.perDie(), 100*e.mfu())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "seconds of rank\tkernels\tof these cube\tvector\tmemory\tAI CPU\texchanges\texposed\tidle\tlaunches\t")
	for _, d := range e.step.Devices {
		fmt.Fprintf(t, "%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t\n", d.Rank, d.Kernels,
			d.Limits[simulate.Cube], d.Limits[simulate.Vector], d.Limits[simulate.Memory], d.Limits[simulate.AICPU], d.Exchanges, d.Exposed, d.Idle, d.Launches)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for task, n := range e.step.Unknown {
		fmt.Fprintf(out, "without a time: %d × %s\n", n, task)
	}
	fmt.Fprintln(out)
	return e.printMemory(out)
}

// gibibytes formats a number of bytes.
func gibibytes(n int) string { return fmt.Sprintf("%.4g", float64(n)/(1<<30)) }

// printMemory prints what each rank needs.
func (r *rehearsal) printMemory(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GiB of rank\tweights\tmasters\tgradients\tmoments\tother\tforward\tbackward\texchange\tstep\tcommunicators\tneeded\tof\t")
	for _, s := range r.stages {
		fmt.Fprintf(t, "%d", s.rank)
		for _, n := range []int{
			s.held.Weights, s.held.Masters, s.held.Gradients, s.held.Moments, s.between - s.held.Total(), s.peaks.Forward - s.between, s.peaks.Backward - s.between,
			s.peaks.Exchange - s.between, s.peaks.Step - s.between, s.communicators * r.chip.Communicator, s.need(r.chip), r.chip.Capacity,
		} {
			fmt.Fprintf(t, "\t%s", gibibytes(n))
		}
		fmt.Fprintln(t, "\t")
	}
	return t.Flush()
}

// most returns what the rank needs that needs most.
func (r *rehearsal) most() (n int) {
	for _, s := range r.stages {
		n = max(n, s.need(r.chip))
	}
	return n
}

// plan prints the memory that a training needs. If the chip has less, it fails, and prints flags with which the training would fit.
func (s *simulator) plan(ctx context.Context, r *rehearsal, out io.Writer) error {
	fmt.Fprintf(out, "%s\n\n", r.title())
	if err := r.printMemory(out); err != nil {
		return err
	}
	if r.most() <= s.chip.Capacity {
		fmt.Fprintf(out, "\nit fits\n")
		return nil
	}
	fmt.Fprintf(out, "\nit does not fit; with other flags as they are, these would:\n")
	found := 0
	for _, change := range r.options.remedies() {
		other, err := s.rehearse(ctx, change.options, s.chip.Capacity)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it does not fit either, or the model refuses it
			continue
		}
		fmt.Fprintf(out, "  %s: %s GiB\n", change.flags, gibibytes(other.most()))
		if found++; found == 3 {
			break
		}
	}
	if found == 0 {
		fmt.Fprintln(out, "  none of those that -plan tries; use more ranks, or less -batch or -seq")
	}
	return fmt.Errorf("a rank needs %s GiB, and %s has %s", gibibytes(r.most()), s.chip.Name, gibibytes(s.chip.Capacity))
}

// remedy is a change of flags that saves memory.
type remedy struct {
	flags   string
	options options
}

// remedies are tried in the order of what they cost.
func (o options) remedies() (all []remedy) {
	add := func(flags string, change func(o *options)) {
		other := o
		change(&other)
		all = append(all, remedy{flags, other})
	}
	saving := []string{"none", "attention", "block", "full"}
	for _, r := range saving[slices.Index(saving, string(o.memory.Recompute))+1:] {
		add("-recompute "+r, func(o *options) { _ = (*recompute)(&o.memory.Recompute).Set(r) })
	}
	if !o.memory.Offload {
		add("-recompute block -offload", func(o *options) {
			_ = (*recompute)(&o.memory.Recompute).Set("block")
			o.memory.Offload = true
		})
	}
	if !o.shard && !o.distributed {
		add("-distributed-optimizer", func(o *options) { o.distributed = true })
	}
	if !o.shard {
		add("-fsdp", func(o *options) { o.shard, o.distributed = true, false })
		add("-fsdp -recompute block", func(o *options) {
			o.shard, o.distributed = true, false
			_ = (*recompute)(&o.memory.Recompute).Set("block")
		})
	}
	for n := 2; n <= 16; n *= 2 {
		cp := o.layout.CP * n
		add(fmt.Sprintf("-cp %d -recompute block", cp), func(o *options) {
			o.layout.CP = cp
			_ = (*recompute)(&o.memory.Recompute).Set("block")
		})
		tp := o.layout.TP * n
		add(fmt.Sprintf("-tp %d -sp -recompute block", tp), func(o *options) {
			o.layout.TP, o.sequence = tp, true
			_ = (*recompute)(&o.memory.Recompute).Set("block")
		})
		pp := o.layout.PP * n
		add(fmt.Sprintf("-pp %d -recompute block", pp), func(o *options) {
			o.layout.PP = pp
			_ = (*recompute)(&o.memory.Recompute).Set("block")
		})
	}
	return all
}
