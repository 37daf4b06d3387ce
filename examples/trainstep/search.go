package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goascend/cann/examples/model"
)

// mostStages is how many pipeline stages the layouts that are tried have at most.
const mostStages = 8

// A search prices many layouts of large models. It walks few layers of one micro-batch on one rank of each layout first, which gives an estimate of time and memory,
// and then whole steps in the order of the estimates, until no other layout can be among the best unless its estimate is too high by slack.
const (
	listed = 10
	slack  = 1.3
)

// savings are the values of -recompute that are tried, of which later ones need less memory and more time.
var savings = []model.Recompute{model.RecomputeNone, model.RecomputeBlock, model.RecomputeFull}

// candidate is a layout, the least of the savings that may fit, and the seconds of a step with it; 0 without an estimate.
type candidate struct {
	options options
	saving  int
	seconds float64
}

// price holds the time of a step with a layout, and the memory of the rank of each pipeline stage that needs most.
type price struct {
	options          options
	seconds, exposed float64
	operations       float64
	tokens           int
	needed           []int // bytes, by pipeline stage
}

// search lists the fastest layouts that fit.
func (s *simulator) search(ctx context.Context, o options, out, report io.Writer) error {
	layouts := o.layouts()
	bar := progress{out: report, terminal: isTerminal(report)}
	defer bar.end()
	var candidates []candidate
	large, refused := 0, 0
	var why error // the first refusal
	for i, layout := range layouts {
		if bar.terminal || i%50 == 0 {
			bar.show("estimates: %d of %d layouts", i, len(layouts))
		}
		c, err := s.estimate(ctx, layout)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errTooLarge):
			large++
		case err != nil: // the model, or an operator, refuses the layout
			refused++
			why = cmp.Or(why, fmt.Errorf("%s: %w", layoutFlags(layout), err))
		default:
			candidates = append(candidates, c)
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.seconds, b.seconds) })
	var best []*price
	walked := 0
	for _, c := range candidates {
		if len(best) == listed && c.seconds > slack*best[listed-1].seconds {
			break
		}
		bar.show("%d of %d layouts that may fit: %s, estimated %.3g s", walked, len(candidates), layoutFlags(c.options), c.seconds)
		walked++
		p, err := s.cheapest(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errTooLarge):
			large++
		case err != nil:
			refused++
			why = cmp.Or(why, fmt.Errorf("%s: %w", layoutFlags(c.options), err))
		default:
			best = append(best, p)
			slices.SortStableFunc(best, func(a, b *price) int { return cmp.Compare(a.seconds, b.seconds) })
			best = best[:min(len(best), listed)]
		}
	}
	bar.end()
	fmt.Fprintf(out, "%d × %s: of %d layouts %d do not fit and %d are refused; whole steps of %d were followed, in the order of estimates\n\n", o.simulation.world, s.chip.Name, len(layouts), large, refused, walked)
	if why != nil {
		fmt.Fprintf(out, "the first one that is refused: %v\n\n", why)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "s a step\ttokens/s a die\tMFU\texposed\tGiB\tflags")
	for _, p := range best {
		dies := float64(o.simulation.world)
		mfu := p.operations / p.seconds / dies / s.chip.Cube[o.elementType(false)]
		fmt.Fprintf(t, "%.4g\t%.0f\t%.1f %%\t%.3g s\t%s\t%s\n", p.seconds, float64(p.tokens)/p.seconds/dies, 100*mfu, p.exposed, gibibytes(slices.Max(p.needed)), layoutFlags(p.options))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(best) == 0 {
		return errors.New("no layout that -search tries fits; use more ranks, or less -batch or -seq")
	}
	return nil
}

// cheapest prices a layout with the least saving that fits.
func (s *simulator) cheapest(ctx context.Context, c candidate) (p *price, err error) {
	for _, saving := range savings[c.saving:] {
		c.options.memory.Recompute = saving
		if p, err = s.price(ctx, c.options); !errors.Is(err, errTooLarge) {
			return p, err
		}
	}
	return nil, err
}

// price follows a step with two micro-batches and one with three: the first one fills the pipeline. Each further one takes the time that the third one adds, and while a stage
// holds more micro-batches than three, the memory too.
func (s *simulator) price(ctx context.Context, o options) (*price, error) {
	of := func(micros int) (*price, error) {
		c := o
		c.batch, c.micro = o.batch/o.micro*micros, micros
		return s.whole(ctx, c)
	}
	if o.micro <= 3 {
		return of(o.micro)
	}
	first, err := of(2)
	if err != nil {
		return nil, err
	}
	p, err := of(3)
	if err != nil {
		return nil, err
	}
	more := float64(o.micro - 3)
	p.options = o
	p.seconds += more * (p.seconds - first.seconds)
	p.exposed += more * (p.exposed - first.exposed)
	p.operations, p.tokens = p.operations/3*float64(o.micro), p.tokens/3*o.micro
	for i := range p.needed {
		if held := min(o.micro, len(p.needed)-i); held > 3 {
			p.needed[i] += (held - 3) * (p.needed[i] - first.needed[i])
		}
	}
	if slices.Max(p.needed) > s.chip.Capacity {
		return nil, errTooLarge
	}
	return p, nil
}

// whole follows a step of all stages.
func (s *simulator) whole(ctx context.Context, o options) (*price, error) {
	r, err := s.rehearse(ctx, o, s.chip.Capacity)
	if err != nil {
		return nil, err
	}
	e, err := r.time()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layoutFlags(o), err)
	}
	p := &price{options: o, seconds: e.step.Seconds, operations: e.operations, tokens: e.tokens}
	for _, d := range e.step.Devices {
		p.exposed = max(p.exposed, d.Exposed)
	}
	for _, m := range r.stages {
		p.needed = append(p.needed, m.need(s.chip))
	}
	return p, nil
}

// sample measures the last pipeline stage of a layout with one micro-batch and a number of layers.
type sample struct {
	seconds      float64
	held, passes int // bytes: between steps, and besides at most
	fixed        int // of communicators
}

func (s *simulator) sample(ctx context.Context, o options, layers int) (m sample, err error) {
	stages := o.layout.PP
	o.batch, o.micro = o.batch/o.micro, 1
	o.simulation.layers = layers * stages
	o.memory.LogitBytes = 1 << 30 // many parts would be many launches
	r, err := s.rehearse(ctx, o, math.MaxInt, stages-1)
	if err != nil {
		return m, err
	}
	e, err := r.time()
	if err != nil {
		return m, err
	}
	last := r.stages[0]
	held := last.held.Total()
	return sample{e.step.Seconds, held, last.peaks.Largest() - held, last.communicators * s.chip.Communicator}, nil
}

// estimate extrapolates from few layers to all. Models of few layers have no estimate.
func (s *simulator) estimate(ctx context.Context, o options) (candidate, error) {
	c := candidate{options: o}
	cfg := o.sizes(256)
	if o.folder() {
		var err error
		if cfg, err = model.ReadConfig(o.model + "/config.json"); err != nil {
			return c, err
		}
	}
	stages, micros := o.layout.PP, o.micro
	layers, unit := (cfg.Layers+stages-1)/stages, period(cfg)
	few, more := 2*unit, 3*unit
	if layers <= more {
		return c, nil
	}
	// Weights and gradients of a layout without shards, at least.
	if whole := (dtypes[o.elementType(false)].Size() + 4) * cfg.Parameters() / (max(o.layout.TP, o.layout.EP*o.layout.ExpertTP) * stages); !o.shard && whole > s.chip.Capacity {
		return c, errTooLarge
	}
	found := errTooLarge
	for _, i := range []int{1, 0} { // without recomputation a layer needs more
		o.memory.Recompute = savings[i]
		a, err := s.sample(ctx, o, few)
		if err != nil {
			return c, cmp.Or(found, err)
		}
		b, err := s.sample(ctx, o, more)
		if err != nil {
			return c, cmp.Or(found, err)
		}
		time := (b.seconds - a.seconds) / float64(unit)
		held, activations := (b.held-a.held)/unit, max(b.passes-a.passes, 0)/unit
		seconds := func(time float64) float64 {
			return float64(micros)*(a.seconds-time*float64(few)) + time*float64(layers*(micros+stages-1))
		}
		fits := func(kept int) bool { // the activations of so many layers
			return a.fixed+a.held+held*(layers-few)+a.passes+activations*(kept-few) <= s.chip.Capacity
		}
		if fits(layers * min(micros, stages)) {
			c.saving, c.seconds, found = i, seconds(time), nil
			continue
		}
		group := int(math.Sqrt(float64(layers)))
		if i == 1 && fits((layers+group-1)/group*min(micros, stages)+group) {
			c.saving, c.seconds, found = 2, seconds(time*5/4), nil // one more forward pass
		}
		break
	}
	return c, found
}

// period returns after how many layers those of a model repeat, or 1 if they do not.
func period(c model.Config) int {
	for n := 1; n <= 8; n++ {
		repeats := n%max(c.SparseStep, 1) == 0
		for i := n; i < len(c.LayerTypes); i++ {
			repeats = repeats && c.LayerTypes[i] == c.LayerTypes[i-n]
		}
		if repeats {
			return n
		}
	}
	return 1
}

// lastLayers returns the configuration of a model that has only the last n of the layers.
func lastLayers(c model.Config, n int) model.Config {
	without := c.Layers - n
	c.Layers, c.FirstDense = n, max(c.FirstDense-without, 0)
	if c.LayerTypes != nil {
		c.LayerTypes = c.LayerTypes[without:]
	}
	dense := c.DenseLayers
	c.DenseLayers = nil
	for _, i := range dense {
		if i >= without {
			c.DenseLayers = append(c.DenseLayers, i-without)
		}
	}
	return c
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
				// Shards of experts save memory where each rank has one expert already; of models with 8 experts these are large.
				for _, experts := range slices.Compact([][2]int{{1, 1}, {8, 1}, {8, tp}, {64, 1}}) {
					ep, etp := experts[0], experts[1]
					if (tp*cp*data)%(ep*etp) != 0 {
						continue
					}
					for _, shard := range []bool{false, true} {
						if shard && data*cp == 1 {
							continue
						}
						c := o
						c.layout.TP, c.layout.CP, c.layout.Ulysses, c.layout.PP, c.layout.EP, c.layout.ExpertTP, c.layout.Replicas = tp, cp, 1, pp, ep, etp, 1
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
	}{{"tp", o.layout.TP}, {"cp", o.layout.CP}, {"pp", o.layout.PP}, {"ep", o.layout.EP}, {"etp", o.layout.ExpertTP}, {"micro", o.micro}} {
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
	if o.memory.Recompute != "" {
		text += "-recompute " + string(o.memory.Recompute)
	}
	return strings.TrimSuffix(text, " ")
}
