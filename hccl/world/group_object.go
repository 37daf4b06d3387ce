package world

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"reflect"
)

// envelope lets gob encode every type, including interfaces and nil pointers.
type envelope[T any] struct{ V T }

func encodeObject[T any](v T) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(envelope[T]{v}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeObject[T any](b []byte) (T, error) {
	var e envelope[T]
	err := gob.NewDecoder(bytes.NewReader(b)).Decode(&e)
	return e.V, err
}

// packAll makes a function that returns all parts for every rank.
func packAll(parts [][]byte) func(int) []byte {
	all := packList(parts)
	return func(int) []byte { return all }
}

// AllGather returns the values of all ranks, in rank order, on every rank. T is any type that
// encoding/gob accepts, and the same on all ranks; interface values need gob.Register. The encoded
// value of each rank is limited to GroupConfig.MaxMessage bytes. If a rank's value cannot be
// encoded, the call fails on every rank with ErrRankFailed.
func AllGather[T any](ctx context.Context, g *Group, v T) ([]T, error) {
	if err := g.usable(ctx, "all-gather"); err != nil {
		return nil, err
	}
	r := round{label: "all-gather of " + typeName[T](), limit: g.listLimit(), spread: packAll}
	r.body, r.err = encodeObject(v)
	body, err := g.run(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodeList[T](g, r.label, body)
}

// Gather returns the values of all ranks, in rank order, on the rank root, and nil on the others.
// All ranks wait, not only root. Otherwise it behaves like AllGather.
func Gather[T any](ctx context.Context, g *Group, root int, v T) ([]T, error) {
	if err := g.checkRoot(ctx, "gather", root); err != nil {
		return nil, err
	}
	r := round{
		label: fmt.Sprintf("gather of %s to rank %d", typeName[T](), root), limit: g.listLimit(),
		spread: func(parts [][]byte) func(int) []byte {
			all := packList(parts)
			return func(rank int) []byte {
				if rank == root {
					return all
				}
				return nil
			}
		},
	}
	r.body, r.err = encodeObject(v)
	body, err := g.run(ctx, r)
	if err != nil || g.rank != root {
		return nil, err
	}
	return decodeList[T](g, r.label, body)
}

// Broadcast returns the value of the rank root on every rank; the values of the others are ignored.
// It waits for all ranks. Otherwise it behaves like AllGather.
func Broadcast[T any](ctx context.Context, g *Group, root int, v T) (T, error) {
	return Share(ctx, g, root, func() (T, error) { return v, nil })
}

// Share calls produce on the rank root only and returns its result on every rank; if produce fails,
// every rank gets an error. It is used to distribute the root info of a new communicator.
func Share[T any](ctx context.Context, g *Group, root int, produce func() (T, error)) (T, error) {
	var zero T
	if err := g.checkRoot(ctx, "broadcast", root); err != nil {
		return zero, err
	}
	r := round{
		label: fmt.Sprintf("broadcast of %s from rank %d", typeName[T](), root), limit: g.maxMessage,
		spread: func(parts [][]byte) func(int) []byte {
			return func(int) []byte { return parts[root] }
		},
	}
	switch {
	case g.rank != root && !g.simulated:
	case produce == nil:
		r.err = g.failed(r.label, 0, ErrNil, nil, "the function that produces the value", root)
	default:
		var v T
		if v, r.err = produce(); r.err == nil {
			r.body, r.err = encodeObject(v)
		}
	}
	body, err := g.run(ctx, r)
	if err != nil {
		return zero, err
	}
	v, err := decodeObject[T](body)
	if err != nil {
		return zero, g.failed(r.label, g.calls, ErrRankFailed, err, "its value cannot be decoded", root)
	}
	return v, nil
}

// Barrier waits until every rank has called it.
func (g *Group) Barrier(ctx context.Context) error { return g.agree(ctx, "barrier", nil) }

// agree is a barrier at which a rank may report that it failed.
func (g *Group) agree(ctx context.Context, label string, failed error) error {
	if err := g.usable(ctx, label); err != nil {
		return err
	}
	_, err := g.run(ctx, round{label: label, err: failed, spread: func([][]byte) func(int) []byte {
		return func(int) []byte { return nil }
	}})
	return err
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }

// listLimit bounds the size of a message with the parts of all ranks.
func (g *Group) listLimit() int { return g.size * (g.maxMessage + 4) }

func (g *Group) checkRoot(ctx context.Context, op string, root int) error {
	if err := g.usable(ctx, op); err != nil {
		return err
	}
	if root < 0 || root >= g.size {
		return g.failed(op, 0, ErrDisagree, nil, fmt.Sprintf("root %d of %d ranks", root, g.size))
	}
	return nil
}

func decodeList[T any](g *Group, label string, body []byte) ([]T, error) {
	bodies, err := unpackList(body, g.size)
	if err != nil {
		return nil, g.failed(label, g.calls, ErrStranger, err, "", 0)
	}
	list := make([]T, g.size)
	for rank, b := range bodies {
		if list[rank], err = decodeObject[T](b); err != nil {
			return nil, g.failed(label, g.calls, ErrRankFailed, err, "its value cannot be decoded", rank)
		}
	}
	return list, nil
}
