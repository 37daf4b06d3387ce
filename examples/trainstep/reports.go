package main

import (
	"errors"

	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/examples/tensorboard"
)

// reports are the places to which rank 0 writes the numbers of each step; those that were not asked for are nil.
type reports struct {
	log     *log                // of -log
	metrics *metrics            // of -metrics
	board   *tensorboard.Writer // of -tensorboard
}

func (o options) openReports() (r reports, err error) {
	if o.log != "" {
		if r.log, err = newLog(o.log); err != nil {
			return r, err
		}
	}
	if o.tensorboard != "" {
		if r.board, err = tensorboard.Create(o.tensorboard); err != nil {
			return r, err
		}
	}
	if o.metrics != "" {
		r.metrics, err = newMetrics(o.metrics)
	}
	return r, err
}

// write reports a step to all of them.
func (r *reports) write(e entry) error {
	return errors.Join(r.log.write(e), r.metrics.write(e), r.board.Write(e.Step, e.Time, e.numbers()))
}

func (r *reports) Close() error {
	return errors.Join(r.log.Close(), r.board.Close())
}

// numbers are the charts of TensorBoard.
func (e entry) numbers() map[string]float64 {
	all := map[string]float64{
		"loss/training": e.Loss, "gradient norm": e.Norm, "learning rate": e.LR, "memory peak, bytes": float64(e.MemoryPeak),
		"tokens a second/all devices": e.TokensPerSecond, "tokens a second/each device": e.PerDevice, "seconds/step": e.Seconds,
	}
	if e.EvalLoss != 0 {
		all["loss/held-out"] = e.EvalLoss
	}
	for name, r := range map[string]*rewards{"training": e.Rewards, "held-out": e.EvalRewards} {
		if r != nil {
			all["reward of chosen/"+name], all["reward of rejected/"+name] = r.Chosen, r.Rejected
			all["reward margin/"+name], all["reward accuracy/"+name] = r.Margin, r.Accuracy
		}
	}
	if e.MFU != 0 {
		all["mfu"] = e.MFU
	}
	if len(e.Ranks) > 0 {
		m := meter.Mean(e.Ranks)
		all["seconds/kernels"], all["seconds/communication"], all["seconds/waiting"] = m.Kernels, m.Communication, m.Waiting
	}
	return all
}
