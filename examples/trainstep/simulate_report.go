package main

import (
	"cmp"
	"context"
	"errors"
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
	s, err := newSimulator(chip, stages)
	if err != nil {
		return err
	}
	defer job.Close(&err, s)
	if o.simulation.search {
		return s.search(ctx, o, out)
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

// mostStages is how many pipeline stages the layouts that are tried have at most.
const mostStages = 8

// search lists the fastest layouts that fit.
func (s *simulator) search(ctx context.Context, o options, out io.Writer) error {
	var best []*estimate
	tried, refused, large := 0, 0, 0
	for _, candidate := range o.layouts() {
		for _, saving := range []string{"none", "block", "full"} {
			_ = (*recompute)(&candidate.memory.Recompute).Set(saving)
			tried++
			r, err := s.rehearse(ctx, candidate, s.chip.Capacity)
			if errors.Is(err, errTooLarge) {
				large++
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // the model, or an operator, refuses the layout
				refused++
				break
			}
			e, err := r.time()
			if err != nil {
				return fmt.Errorf("%s: %w", layoutFlags(candidate), err)
			}
			e.schedule, e.step.Spans = nil, nil // they are large
			best = append(best, e)
			break // more recomputation is slower
		}
	}
	slices.SortStableFunc(best, func(a, b *estimate) int { return cmp.Compare(a.step.Seconds, b.step.Seconds) })
	fmt.Fprintf(out, "%d × %s: %d trials, %d do not fit, %d layouts are refused\n\n", o.simulation.world, s.chip.Name, tried, large, refused)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "s a step\ttokens/s a die\tMFU\texposed\tGiB\tflags")
	for _, e := range best[:min(len(best), 10)] {
		exposed := 0.0
		for _, d := range e.step.Devices {
			exposed = max(exposed, d.Exposed)
		}
		fmt.Fprintf(t, "%.3f\t%.0f\t%.1f %%\t%.3f s\t%s\t%s\n", e.step.Seconds, e.perDie(), 100*e.mfu(), exposed, gibibytes(e.most()), layoutFlags(e.options))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(best) == 0 {
		return errors.New("no layout that -search tries fits; use more ranks, or less -batch or -seq")
	}
	return nil
}

// layouts are those that -search tries.
func (o options) layouts() (all []options) {
	powers := func(limit int) (list []int) {
		for n := 1; n <= limit; n *= 2 {
			list = append(list, n)
		}
		return list
	}
	world := o.simulation.world
	for _, tp := range powers(min(8, world)) {
		for _, cp := range powers(min(8, world/tp)) {
			for _, pp := range powers(min(mostStages, world/tp/cp)) {
				data := world / (tp * cp * pp)
				if tp*cp*pp*data != world || o.batch%data != 0 {
					continue
				}
				rows := o.batch / data
				for _, ep := range []int{1, 8, 64} {
					if (tp*cp*data)%ep != 0 {
						continue
					}
					for _, shard := range []bool{false, true} {
						if shard && data*cp == 1 {
							continue
						}
						c := o
						c.layout.TP, c.layout.CP, c.layout.Ulysses, c.layout.PP, c.layout.EP, c.layout.Replicas = tp, cp, 1, pp, ep, 1
						c.sequence, c.shard, c.micro, c.distributed = tp > 1, shard, rows, !shard && data*cp > 1
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// layoutFlags are the flags of a layout.
func layoutFlags(o options) (text string) {
	for _, f := range []struct {
		name  string
		value int
	}{{"tp", o.layout.TP}, {"cp", o.layout.CP}, {"pp", o.layout.PP}, {"ep", o.layout.EP}, {"micro", o.micro}} {
		if f.value > 1 {
			text += fmt.Sprintf("-%s %d ", f.name, f.value)
		}
	}
	if o.sequence {
		text += "-sp "
	}
	if o.shard {
		text += "-fsdp "
	}
	if o.distributed {
		text += "-distributed-optimizer "
	}
	return text + "-recompute " + string(o.memory.Recompute)
}
