// Package slogzap writes what this module logs to a log/slog handler. The module's packages
// take loggers of zap; a program that logs with log/slog hands its handler on:
//
//	log := slogzap.New(slog.Default().Handler())
//	rt, err := acl.Open(acl.Config{}, acl.WithLogger(log))
//	reg, err := ops.NewRegistry(env, ops.WithLogger(log))
//	all, err := world.Join(ctx, place, world.GroupConfig{}, world.WithLogger(log))
//
// The other direction, a slog handler that writes to zap, is go.uber.org/zap/exp/zapslog.
package slogzap
