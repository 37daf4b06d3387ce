package hccl

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"reflect"
)

// envelope lets gob carry every type, also interfaces and nil pointers.
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

// packAll gives every rank all parts.
func packAll(parts [][]byte) func(int) []byte {
	all := packList(parts)
	return func(int) []byte { return all }
}

// AllGatherObject gives every rank the values of all ranks, by rank. T is anything that
// encoding/gob takes and is the same on all ranks; interface values need gob.Register. The
// value of each rank is bounded by GroupConfig.MaxMessage. A rank whose value cannot be
// encoded makes the call fail on every rank with ErrRankFailed.
func AllGatherObject[T any](ctx context.Context, g *Group, v T) ([]T, error) {
	r := round{label: "all-gather of " + typeName[T](), limit: g.listLimit(), spread: packAll}
	r.body, r.err = encodeObject(v)
	body, err := g.run(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodeList[T](g, r.label, body)
}

// GatherObject gives the rank root the values of all ranks, by rank, and the others nil. It
// waits for all ranks, not only on root. Otherwise it is AllGatherObject.
func GatherObject[T any](ctx context.Context, g *Group, root int, v T) ([]T, error) {
	if err := g.checkRoot("gather", root); err != nil {
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

// BroadcastObject gives every rank the value of the rank root; those of the others are
// ignored. It waits for all ranks. Otherwise it is AllGatherObject.
func BroadcastObject[T any](ctx context.Context, g *Group, root int, v T) (T, error) {
	return shareObject(ctx, g, root, func() (T, error) { return v, nil })
}

// shareObject broadcasts what only the root makes, or its failure to do so.
func shareObject[T any](ctx context.Context, g *Group, root int, produce func() (T, error)) (T, error) {
	var zero T
	if err := g.checkRoot("broadcast", root); err != nil {
		return zero, err
	}
	r := round{
		label: fmt.Sprintf("broadcast of %s from rank %d", typeName[T](), root), limit: g.maxMessage,
		spread: func(parts [][]byte) func(int) []byte {
			return func(int) []byte { return parts[root] }
		},
	}
	if g.rank == root {
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

// ShareRootInfo hands the root info of a new communicator round: produce runs on the rank
// root only, for example with HcclGetRootInfo, and its failure is every rank's error. The
// bytes are opaque and travel as they are.
func (g *Group) ShareRootInfo(ctx context.Context, root int, produce func() ([]byte, error)) ([]byte, error) {
	return shareObject(ctx, g, root, produce)
}

// Barrier waits until every rank has called it.
func (g *Group) Barrier(ctx context.Context) error { return g.agree(ctx, "barrier", nil) }

// agree is a barrier at which a rank may say that it failed.
func (g *Group) agree(ctx context.Context, label string, failed error) error {
	_, err := g.run(ctx, round{label: label, err: failed, spread: func([][]byte) func(int) []byte {
		return func(int) []byte { return nil }
	}})
	return err
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }

// listLimit bounds what a rank gets when it gets the parts of all.
func (g *Group) listLimit() int { return g.size * (g.maxMessage + 4) }

func (g *Group) checkRoot(op string, root int) error {
	if root < 0 || root >= g.size {
		return g.failed(op, 0, ErrWorldMismatch, nil, fmt.Sprintf("root %d of %d ranks", root, g.size))
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
