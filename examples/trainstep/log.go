package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/simulate"
	"github.com/goascend/cann/hccl/world"
)

// log writes a line of JSON for each step.
type log struct{ file *os.File }

// entry is a line of the log.
type entry struct {
	Time     time.Time `json:"time"`
	Step     int       `json:"step"`
	Loss     float64   `json:"loss"`
	Norm     float64   `json:"norm"` // of the gradients, before clipping
	LR       float64   `json:"lr"`
	EvalLoss float64   `json:"eval_loss,omitempty"` // of held-out samples, after the step
	// With a loss that compares answers, Rewards describes the step's pairs and EvalRewards the held-out pairs.
	Rewards         *rewards `json:"rewards,omitempty"`
	EvalRewards     *rewards `json:"eval_rewards,omitempty"`
	Tokens          int      `json:"tokens"` // of this step, on all devices
	Seconds         float64  `json:"seconds"`
	TokensPerSecond float64  `json:"tokens_per_second"`
	PerDevice       float64  `json:"tokens_per_second_per_device"`
	MFU             float64  `json:"mfu,omitempty"` // of bfloat16 on chips with a known peak
	MemoryPeak      int      `json:"memory_peak"`   // of rank 0's device, bytes, since it was opened
	// Memory has the peaks of the step on rank 0's device by phase, and what is held between steps, in bytes.
	Memory struct {
		model.Held
		model.Peaks
	} `json:"memory"`
	BadLines int `json:"bad_lines,omitempty"` // of samples so far
	Epoch    int `json:"epoch,omitempty"`     // of samples
	// What the seconds were spent on, on each rank; not with -graph.
	Ranks []meter.Times `json:"ranks,omitempty"`
}

// newLog opens a log, to which a resumed run appends. It makes its folder, which is often that of -save.
func newLog(path string) (*log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &log{f}, nil
}

// measure describes the last step. All ranks call it; rank 0 knows what all of them have measured.
func (t *trainer) measure(ctx context.Context, loss, norm float64) (entry, error) {
	own, err := t.ranks.Meter.End(ctx, t.began)
	if err != nil {
		return entry{}, err
	}
	e := entry{
		Time: time.Now().UTC(), Step: t.optimizer.Steps(), Loss: loss, Norm: norm, LR: t.optimizer.Options.LR, Tokens: t.tokens,
		Seconds: own.Took.Seconds(), MemoryPeak: t.stream.Device().Allocator().Stats().PeakInUse,
	}
	e.Rewards = rewardsOf(t.compared)
	e.TokensPerSecond = float64(e.Tokens) / e.Seconds
	e.PerDevice = e.TokensPerSecond / float64(t.ranks.Group.Size())
	e.Memory.Held, e.Memory.Peaks = t.optimizer.Held(), t.model.Peaks()
	if chip, err := simulate.ChipOf(t.soc); err == nil && t.options.dtype == "bf16" {
		e.MFU = t.operations / (e.Seconds * float64(t.ranks.Group.Size()) * chip.Cube["bf16"])
	}
	if t.data != nil {
		e.BadLines, e.Epoch = t.data.Report().Bad, t.data.Position().Epoch
	}
	if t.ranks.Meter == nil {
		return e, nil
	}
	all, err := world.Gather(ctx, t.ranks.Group, 0, own)
	e.Ranks = t.board.Split(all)
	return e, err
}

// spent says on what the time went, as a mean over the ranks.
func (e entry) spent() string {
	if len(e.Ranks) == 0 {
		return ""
	}
	m := meter.Mean(e.Ranks)
	percent := func(seconds float64) float64 { return 100 * seconds / (m.Kernels + m.Communication + m.Waiting) }
	text := fmt.Sprintf("  kernels %.0f%%, communication %.0f%%, waiting %.0f%%", percent(m.Kernels), percent(m.Communication), percent(m.Waiting))
	if len(e.Ranks) > 1 {
		if rank, longer := meter.Slowest(e.Ranks); longer >= 0.1 {
			text += fmt.Sprintf(", slowest rank %d (+%.0f%%)", rank, 100*longer)
		}
	}
	return text
}

// write adds the line of a step.
func (l *log) write(e entry) error {
	if l == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (l *log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
