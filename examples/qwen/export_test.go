package qwen

import "context"

// Queue queues the step of a Decoder without waiting for it, as Next does.
func (d *Decoder) Queue(ctx context.Context, tokens []int32) error { return d.queue(ctx, tokens) }

// Queue queues a step of a Trainer without waiting for it, as Step does.
func (t *Trainer) Queue(ctx context.Context, b Batch) error { return t.queue(ctx, b) }

// Graphs is the number of captured graphs.
func (d *Decoder) Graphs() int { return len(d.graphs) }
