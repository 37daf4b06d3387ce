package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/ops/parallel"
)

// pipeline has the flags of the order in which the ranks of -pp compute.
type pipeline struct {
	schedule string
	chunks   int
	drawing  string // file
}

// The values of -pp-schedule.
const (
	oneForwardOneBackward = "1f1b"
	interleaved           = "interleaved"
	zeroBubble            = "zero-bubble"
)

func (p *pipeline) flags(f *command.Flags) {
	f.StringVar(&p.schedule, "pp-schedule", oneForwardOneBackward, "`order` of the micro-batches in the pipeline: 1f1b (one forward, one backward), interleaved (1f1b with the -pp-chunks of each rank), or zero-bubble (the gradients of weights fill the time in which a rank would wait; not with -fsdp, as a stage would gather its shards once more for these gradients, and hold the whole gradients of all its layers)")
	f.IntVar(&p.chunks, "pp-chunks", 1, "with -pp-schedule interleaved, `chunks` of consecutive layers that each rank has")
	f.StringVar(&p.drawing, "pp-draw", "", "train nothing: draw the schedule of the pipeline as SVG to this `file`")
}

// check refuses schedules that there are not.
func (p *pipeline) check(ranks, micros int) error {
	switch p.schedule {
	case interleaved:
		if p.chunks < 2 {
			return fmt.Errorf("-pp-schedule %s needs -pp-chunks of 2 or more", interleaved)
		}
	case oneForwardOneBackward, zeroBubble:
		if p.chunks != 1 {
			return fmt.Errorf("-pp-chunks %d is for -pp-schedule %s", p.chunks, interleaved)
		}
	default:
		return fmt.Errorf("-pp-schedule %q; use %s, %s or %s", p.schedule, oneForwardOneBackward, interleaved, zeroBubble)
	}
	if _, err := p.table(ranks, micros); err != nil {
		return fmt.Errorf("-pp %d, -micro %d, -pp-chunks %d: %w", ranks, micros, p.chunks, err)
	}
	return nil
}

func (p *pipeline) table(ranks, micros int) (*parallel.PipelineSchedule, error) {
	return parallel.NewPipelineSchedule(ranks, micros, p.chunks, p.schedule == zeroBubble)
}

// draw writes the drawing of the schedule.
func (p *pipeline) draw(ranks, micros int, out io.Writer) error {
	s, err := p.table(ranks, micros)
	if err != nil {
		return err
	}
	f, err := os.Create(p.drawing)
	if err != nil {
		return err
	}
	if err := errors.Join(s.WriteSVG(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", p.drawing, err)
	}
	_, err = fmt.Fprintf(out, "%s: %d ranks, %d micro-batches, %.1f %% of the time in waiting\n", p.drawing, ranks, micros, 100*s.Bubble())
	return err
}
