package job

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/goascend/cann/hccl/world"
)

// JoinLimit is how long ranks wait for one another at the start.
const JoinLimit = 2 * time.Minute

// Warnings returns a logger that writes warnings and errors to standard error.
func Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Join is world.Join of a program: it waits for the other ranks for JoinLimit, and writes to standard error which
// connections it refuses and what keeps it from accepting others.
func Join(ctx context.Context, place world.Place) (*world.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, JoinLimit)
	defer cancel()
	return world.Join(ctx, place, world.GroupConfig{}, world.WithLogger(Warnings()))
}

// Local is world.LocalGroups of a program, with the same.
func Local(ctx context.Context, ranks int) ([]*world.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, JoinLimit)
	defer cancel()
	return world.LocalGroups(ctx, ranks, world.GroupConfig{}, world.WithLogger(Warnings()))
}
