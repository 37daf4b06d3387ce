package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
)

// earlier opens the checkpoint that training goes on from; nil if it begins.
func (o *options) earlier(ctx context.Context, group *world.Group) (*checkpoint.Set, error) {
	folder := o.resume
	if o.autoResume {
		found, err := world.Share(ctx, group, 0, func() (bool, error) {
			set, err := checkpoint.Open(o.save)
			if errors.Is(err, checkpoint.ErrNone) || errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil, errors.Join(err, set.Close())
		})
		if err != nil || !found {
			return nil, err
		}
		folder = o.save
	}
	if folder == "" {
		return nil, nil
	}
	return checkpoint.Agree(ctx, group, folder)
}

// save starts to write a checkpoint.
func (t *trainer) save(ctx context.Context) error {
	t.last = t.optimizer.Steps()
	return t.saveTo(ctx, t.saver)
}

// saveTo copies the state of the training to the host and starts to write it to a checkpoint.
func (t *trainer) saveTo(ctx context.Context, to *checkpoint.Saver) error {
	about, err := model.About(t.optimizer)
	if err != nil {
		return err
	}
	position := t.position()
	maps.Copy(position, about.Data)
	about.Layout, about.Data, about.Versions = t.ranks.String(), position, t.versions
	if t.evalLoss != 0 {
		about.Data["eval loss"] = strconv.FormatFloat(t.evalLoss, 'g', -1, 64)
	}
	if t.options.shard {
		about.Layout += ", sharded"
	}
	if t.options.distributed {
		about.Layout += ", distributed optimizer"
	}
	tensors, err := model.Snapshot(ctx, t.optimizer)
	if err != nil {
		return err
	}
	return to.Save(ctx, about, tensors)
}

// finish saves the last step unless that was done, and waits for the files.
func (t *trainer) finish(ctx context.Context) error {
	if t.last != t.optimizer.Steps() {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	err := t.saver.Wait()
	if t.best != nil {
		err = errors.Join(err, t.best.Wait())
	}
	return err
}

// position says what the next batches depend on beside the step.
func (t *trainer) position() map[string]string {
	p := map[string]string{
		"text": t.text.source, "tokens": fmt.Sprint(t.text.count()), "seed": fmt.Sprint(t.options.seed),
		"batch": fmt.Sprint(t.options.batch), "seq": fmt.Sprint(t.options.seq), "steps": fmt.Sprint(t.options.steps),
		"model": t.origin,
	}
	if t.options.compares() {
		p["loss"] = t.options.loss
	}
	if t.data == nil {
		return p
	}
	if at, err := t.data.Position().MarshalText(); err == nil {
		p["position"] = string(at)
	}
	p["pack"] = fmt.Sprint(t.options.pack)
	return p
}

// compare describes the checkpoint that is resumed, and what the batches and learning rates to come
// depend on that is not as it was.
func (t *trainer) compare(set *checkpoint.Set) string {
	was, now := set.About().Data, t.position()
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was[name] != now[name] {
			changes = append(changes, fmt.Sprintf("%s was %q and is %q", name, was[name], now[name]))
		}
	}
	line := fmt.Sprintf("resumed after step %d from %s, saved by %s", t.optimizer.Steps(), set.Path(), set.About().Layout)
	if changes != nil {
		line += "; not as it was: " + strings.Join(changes, ", ")
	}
	return line + "\n"
}

// versions names what computes the training.
func versions(rt *acl.Runtime) map[string]string {
	all := map[string]string{"go": runtime.Version(), "device": rt.SoC()}
	if info, ok := debug.ReadBuildInfo(); ok {
		all["program"] = info.Main.Path + " " + info.Main.Version
	}
	if v, err := rt.Version(); err == nil {
		all["runtime"] = v.String()
	}
	return all
}
