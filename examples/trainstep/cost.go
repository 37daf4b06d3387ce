package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goascend/cann/examples/cost"
	"github.com/goascend/cann/examples/model"
)

// estimate prints what a step takes with each form of the experts' weights.
func (o options) estimate(out io.Writer) error {
	chip, err := cost.ParseChip(o.chip)
	if err != nil {
		return err
	}
	if o.layout.TP*o.layout.CP*o.layout.PP*o.layout.EP != 1 || o.layout.Replicas != 1 || o.lora.on() {
		return errors.New("-cost estimates runs whose ranks differ in their data and shards alone: leave out -tp, -cp, -pp, -ep, -replicas and -lora")
	}
	if o.batch%o.ranks != 0 {
		return fmt.Errorf("-batch %d is not a multiple of -ranks %d", o.batch, o.ranks)
	}
	cfg := o.sizes(256)
	if o.folder() {
		if cfg, err = model.ReadConfig(o.model + "/config.json"); err != nil {
			return err
		}
	}
	bytes := 2
	if dt, ok := dtypes[o.elementType(false)]; ok {
		bytes = dt.Size()
	}
	run := cost.Run{Config: cfg, Devices: o.ranks, Tokens: o.batch * o.seq / o.ranks, ElementBytes: bytes}
	fmt.Fprintf(out, "%d × %s: %.1f TFLOP/s of %.1f, %.2f TB/s memory, %.0f GB/s link; %d tokens a step on each\n",
		o.ranks, chip.Name, chip.Peak*chip.Efficiency/1e12, chip.Peak/1e12, chip.Memory/1e12, chip.Link/1e9, run.Tokens)
	formats := cost.Formats()
	if cfg.ExpertParameters() == 0 {
		formats = slices.DeleteFunc(formats, func(f cost.Format) bool { return f != cost.ND })
	}
	for _, run.Format = range formats {
		step, err := run.On(chip)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s: %.1f tokens/s on each device, %.3f s a step\n", run.Format, step.TokensPerSecond(), step.Seconds())
		for _, t := range step.Terms {
			fmt.Fprintf(out, "  %9.4f s  %14s  %s\n", t.Seconds, mebibytes(t.Bytes), t.Name)
		}
	}
	return nil
}

// mebibytes formats a number of bytes.
func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
