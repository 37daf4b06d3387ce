package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
)

// exportParts is a folder inside that of the export. The ranks write their parts there, and rank 0 joins them.
const exportParts = ".parts"

// exportResult writes the folder of -export: the adapter, or the model, with the adapter in its
// weights if there is one.
func (t *trainer) exportResult(ctx context.Context) error {
	if t.adapter != nil && t.options.merge {
		if err := t.adapter.Merge(ctx); err != nil {
			return err
		}
	}
	if t.ranks.Group.Size() == 1 {
		return t.write(ctx, nil)
	}
	set, err := t.gather(ctx)
	if err != nil {
		return err
	}
	_, err = world.Share(ctx, t.ranks.Group, 0, func() (struct{}, error) {
		s, err := checkpoint.Open(set)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, errors.Join(t.write(ctx, s), s.Close(), os.RemoveAll(filepath.Dir(set)))
	})
	return err
}

// gather lets all ranks write their parts, and returns the folder of the set.
func (t *trainer) gather(ctx context.Context) (string, error) {
	group, err := job.Whole(ctx, t.ranks.Group, "export")
	if err != nil {
		return "", err
	}
	saver, err := checkpoint.NewSaver(ctx, group, filepath.Join(t.options.export, exportParts), 1)
	if err != nil {
		return "", err
	}
	about, err := model.About(t.optimizer)
	if err != nil {
		return "", errors.Join(err, saver.Close())
	}
	var tensors []checkpoint.Tensor
	if t.adapter != nil && !t.options.merge {
		tensors, err = t.adapter.Snapshot(ctx)
	} else {
		tensors, err = t.model.Snapshot(ctx)
	}
	if err == nil {
		err = saver.Save(ctx, about, tensors)
	}
	err = errors.Join(err, saver.Close())
	return saver.Saved(), err
}

// write writes the folder from a set, or with nil from the device.
func (t *trainer) write(ctx context.Context, set *checkpoint.Set) error {
	var from model.Weights
	if set != nil {
		from = set
	}
	o := t.options
	if t.adapter != nil && !o.merge {
		return t.adapter.Save(ctx, o.export, o.model, from)
	}
	like := t.origin
	if _, err := os.Stat(filepath.Join(like, "config.json")); err != nil {
		like = ""
	}
	return t.model.Export(ctx, o.export, like, dtypes[o.dtype], from)
}
