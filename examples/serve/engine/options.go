package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
)

// Options are the limits of an engine. Zero values stand for the defaults.
type Options struct {
	Blocks    int // of the cache of keys and values; 256
	BlockSize int // tokens of a block; 128, of which CANN's kernels take multiples
	Sequences int // requests that run at the same time; 16
	Budget    int // tokens of a step; 512
	Queue     int // requests that wait; beyond them Submit returns ErrBusy; 64
	Adapters  int // that can be loaded at the same time; none
	// Tensor is the number of devices that share each layer (tensor parallelism), and the experts; 1.
	Tensor int
	// Group, in place of Tensor, joins processes that share each layer, with a device each. Its first rank has the
	// engine; the others Follow it. The engine closes the group. When a rank is lost, the engine ends with ErrRank.
	Group *world.Group
	// AdapterRank is the largest rank of an adapter; 64.
	AdapterRank int
	// Speculate is the number of draft tokens in a step of a request that generates (speculative decoding by n-grams):
	// the tokens that followed the last time its text had the same words. The model reads them with the next token.
	// Accepted draft tokens save steps, and rejected ones change nothing, but a model with delta nets then reads the accepted ones again, from the
	// states before them. 0 by default.
	Speculate int
	// Graph replays steps that only generate as captured graphs, which spares the host the launches.
	Graph bool
	// MaxLength is the number of tokens of a request, its prompt included; what the blocks hold, and the model's max_position_embeddings.
	MaxLength int
	// Pool is how the states of a text become its embedding; their mean.
	Pool hub.Pool
	// Logger gets failures of the device; nil logs nothing.
	Logger *slog.Logger
}

// longestJoin is the time that the ranks have to come.
const longestJoin = 2 * time.Minute

// Join sets Group if Tensor is more than one and a launcher, such as torchrun or examples/launch, has started this
// process as one of so many ranks. It returns the device of this rank; without a launcher, the one it was given.
func (o *Options) Join(ctx context.Context, device int) (int, error) {
	if o.Tensor < 2 {
		return device, nil
	}
	place, err := world.Detect()
	switch {
	case errors.Is(err, world.ErrNoLauncher):
		return device, nil
	case err != nil:
		return 0, err
	case place.Size != o.Tensor:
		return 0, fmt.Errorf("engine: %v is one of %d ranks; there must be %d", place, place.Size, o.Tensor)
	}
	ctx, cancel := context.WithTimeout(ctx, longestJoin)
	defer cancel()
	o.Group, err = world.Join(ctx, place, world.GroupConfig{}, world.WithLogger(o.Logger))
	o.Tensor = 1
	return place.Device, err
}

// complete fills in the defaults and refuses what cannot work.
func (o Options) complete() (Options, error) {
	for _, f := range []struct {
		name  string
		value *int
		usual int
	}{
		{"Blocks", &o.Blocks, 256}, {"BlockSize", &o.BlockSize, 128}, {"Sequences", &o.Sequences, 16}, {"Budget", &o.Budget, 512}, {"Queue", &o.Queue, 64},
		{"Adapters", &o.Adapters, 0}, {"Tensor", &o.Tensor, 1}, {"Speculate", &o.Speculate, 0}, {"AdapterRank", &o.AdapterRank, 64},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < 0 {
			return o, fmt.Errorf("engine: %s is %d; it must be positive", f.name, *f.value)
		}
	}
	all := o.Blocks * o.BlockSize
	switch {
	case o.MaxLength != 0 && (o.MaxLength < 2 || o.MaxLength > all):
		return o, fmt.Errorf("engine: MaxLength is %d; it must be from 2 to %d, the tokens of all blocks", o.MaxLength, all)
	case o.Group != nil && o.Tensor > 1:
		return o, fmt.Errorf("engine: Tensor is %d and there is a Group; the processes of a group have a device each", o.Tensor)
	case o.Budget < o.Sequences:
		return o, fmt.Errorf("engine: Budget is %d; a step needs a token for each of %d Sequences", o.Budget, o.Sequences)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// statesOf returns how many places for states of delta nets each sequence has: with drafts those before them are kept.
func (o *Options) statesOf(c model.Config) int {
	if o.Speculate > 0 && c.Recurrent() {
		return 2
	}
	return 1
}

// within bounds MaxLength by the positions that the model is made for; 0 if that is not known.
func (o *Options) within(positions int) error {
	if positions > 0 && o.MaxLength > positions {
		return fmt.Errorf("engine: MaxLength is %d; the model's max_position_embeddings is %d", o.MaxLength, positions)
	}
	if o.MaxLength == 0 {
		if o.MaxLength = o.Blocks * o.BlockSize; positions > 0 {
			o.MaxLength = min(o.MaxLength, positions)
		}
	}
	return nil
}
