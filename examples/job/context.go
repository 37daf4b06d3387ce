package job

import (
	"context"

	"github.com/goascend/cann/hccl/world"
)

// Either returns a context that ends with the first of two; its values are those of a.
func Either(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(a)
	forget := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// Whole makes another group of all ranks of a group, for a goroutine of its own.
func Whole(ctx context.Context, group *world.Group, name string) (*world.Group, error) {
	ranks := make([]int, group.Size())
	for rank := range ranks {
		ranks[rank] = rank
	}
	return group.Sub(ctx, name, ranks)
}
