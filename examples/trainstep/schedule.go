package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// schedules are the values of -schedule.
var schedules = []string{"cosine", "linear", "constant", "wsd"}

func (o options) checkSchedule() error {
	switch {
	case !slices.Contains(schedules, o.schedule):
		return fmt.Errorf("-schedule %q; use one of %s", o.schedule, strings.Join(schedules, ", "))
	case !(o.minLR >= 0 && o.minLR <= 1):
		return fmt.Errorf("-min-lr %g is a part of -lr, from 0 to 1", o.minLR)
	case o.cooldown < 0 || !(o.lr >= 0) || !(o.warmup >= 0) || !(o.decay >= 0) || !(o.maxNorm >= 0):
		return fmt.Errorf("-lr, -cooldown, -warmup, -weight-decay and -clip must not be negative")
	}
	return nil
}

// usual returns the learning rate where none was given: a model that has learnt, which came from the folder origin, takes
// smaller steps than a new one, and an adapter larger ones than the model's own weights.
func (o options) usual(origin string) float64 {
	switch {
	case o.loss == dpo && o.lora.on():
		return 1e-5
	case o.loss == dpo:
		return 1e-6
	case o.lora.on():
		return 2e-4
	case origin != "":
		return 2e-5
	}
	return 3e-3
}

// rate returns the learning rate of a step, counted from 0: it rises over the warm-up, and falls to
// -min-lr as -schedule says.
func (o options) rate(step int) float64 {
	if s := float64(step) + 1; s < o.warmup {
		return o.lr * s / o.warmup
	}
	cooldown := float64(o.cooldown)
	if o.cooldown == 0 {
		cooldown = float64(o.steps) / 10
	}
	end, from := float64(o.steps), o.warmup
	if o.schedule == "wsd" { // warm-up, stable, decay
		from = math.Max(from, end-cooldown)
	}
	done := math.Min(1, math.Max(0, (float64(step)-from)/math.Max(1, end-from)))
	left := 1.
	switch o.schedule {
	case "cosine":
		left = 0.5 * (1 + math.Cos(math.Pi*done))
	case "linear", "wsd":
		left = 1 - done
	}
	return o.lr * (o.minLR + (1-o.minLR)*left)
}
