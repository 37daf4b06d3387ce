package main

import (
	"context"
	"errors"
	"strings"

	"github.com/goascend/cann/examples/model"
)

// loraOptions are the flags of adapters.
type loraOptions struct {
	rank           int
	alpha, dropout float64
	targets        string
	experts        bool
	folder         string // of an adapter to go on with
}

// on reports whether an adapter is trained.
func (l loraOptions) on() bool { return l.rank != 0 || l.folder != "" }

func (o options) checkLora() error {
	l := o.lora
	switch {
	case l.rank < 0:
		return errors.New("-lora must be positive")
	case l.rank > 0 && l.folder != "":
		return errors.New("-adapter has its own rank and layers; leave -lora out")
	case l.on() && !o.folder():
		return errors.New("-lora and -adapter need -model with the folder of a model")
	case o.merge && (!l.on() || o.export == ""):
		return errors.New("-merge needs an adapter (-lora or -adapter) and -export")
	}
	return nil
}

// newAdapter makes the adapter of the options and lets the model use it; nil if none is trained.
func newAdapter(ctx context.Context, o options, m *model.Model) (a *model.Adapter, err error) {
	l := o.lora
	switch {
	case !l.on():
		return nil, nil
	case l.folder != "":
		a, err = model.LoadAdapter(ctx, m, l.folder, o.seed)
	default:
		lora := model.LoRA{Rank: l.rank, Alpha: l.alpha, Dropout: l.dropout, Targets: strings.Split(l.targets, ",")}
		if l.experts {
			lora.Parameters = []string{"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}
		}
		if lora.Alpha == 0 {
			lora.Alpha = float64(2 * l.rank)
		}
		a, err = model.NewAdapter(ctx, m, lora, o.seed)
	}
	if err != nil {
		return nil, err
	}
	return a, m.Use(a)
}

// newOptimizer makes the optimiser of what is trained: the adapter, or without one the model.
func newOptimizer(o options, m *model.Model, a *model.Adapter) (*model.Optimizer, error) {
	adam := model.AdamW{LR: o.lr, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: o.decay, MaxNorm: o.maxNorm, DecayMatrices: true}
	if a != nil {
		return a.NewOptimizer(adam)
	}
	return model.NewOptimizer(m, adam)
}
