package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/durable"
	"github.com/goascend/cann/hccl/world"
)

// Saver writes checkpoints of a job to a folder beside the training. All ranks make the same calls.
// Every host of the job must see the folder.
type Saver struct {
	group *world.Group
	dir   string
	keep  int
	locks *os.File // of rank 0

	running sync.WaitGroup
	mu      sync.Mutex
	saved   string // the last complete set
	err     error  // of the save that ended last, until it is reported
}

// NewSaver makes the folder if it is missing, and removes what killed saves have left in it. It takes
// ownership of the group, which nobody else may use. The newest keep sets stay. If another process
// saves to the folder, the error is ErrBusy.
func NewSaver(ctx context.Context, group *world.Group, dir string, keep int) (*Saver, error) {
	s := &Saver{group: group, dir: dir, keep: max(keep, 1)}
	_, err := world.Share(ctx, group, 0, func() (struct{}, error) {
		err := os.MkdirAll(dir, 0o777)
		if err == nil {
			s.locks, err = lock(dir)
		}
		if err == nil {
			err = reclaim(dir)
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Save waits for the save before this one, and starts to write the tensors, which belong to the
// saver from now on. The error is that of the earlier save. Ranks pass the parts that they are to
// write; together these must be all of every tensor.
func (s *Saver) Save(ctx context.Context, about About, tensors []Tensor) error {
	if err := s.Wait(); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return err
		}
		if int64(len(t.Values)) != count(t.Local()) {
			return fmt.Errorf("checkpoint: %d values for %v", len(t.Values), t.Part)
		}
	}
	s.running.Go(func() {
		saved, err := s.write(ctx, about, tensors)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err = err; err == nil {
			s.saved = saved
		}
	})
	return nil
}

// Wait waits for the save under way and returns its error, once.
func (s *Saver) Wait() error {
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// Saved is the path of the set that was completed last, "" if there is none.
func (s *Saver) Saved() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// Close waits for the save under way, and leaves the group. The error is that of the save.
func (s *Saver) Close() error {
	if s == nil {
		return nil
	}
	err := errors.Join(s.Wait(), s.group.Close())
	if s.locks != nil {
		err = errors.Join(err, s.locks.Close())
		s.locks = nil
	}
	return err
}

// write makes a set. It returns its path when all ranks have written and rank 0 the manifest.
func (s *Saver) write(ctx context.Context, about About, tensors []Tensor) (path string, err error) {
	id, err := world.Share(ctx, s.group, 0, func() (string, error) {
		var id [4]byte
		_, _ = rand.Read(id[:]) // it never fails
		return hex.EncodeToString(id[:]), nil
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(s.dir, folderName(about.Step, id))
	mine, failed := writeFile(path, fmt.Sprintf("rank-%d-of-%d.safetensors", s.group.Rank(), s.group.Size()), about.Step, id, tensors)
	// A rank that fails reports that to the others, and all of them return.
	type outcome struct {
		File  file
		Error string
	}
	own := outcome{File: mine}
	if failed != nil {
		own.Error = failed.Error()
	}
	all, err := world.AllGather(ctx, s.group, own)
	if err != nil {
		return "", errors.Join(failed, err)
	}
	m := manifest{About: about, Format: manifestFormat, ID: id, Time: time.Now().UTC()}
	for rank, one := range all {
		switch {
		case one.Error == "":
			m.Files = append(m.Files, one.File)
		case failed == nil:
			failed = fmt.Errorf("checkpoint: rank %d could not save: %s", rank, one.Error)
		}
	}
	if failed != nil {
		return "", failed
	}
	_, err = world.Share(ctx, s.group, 0, func() (struct{}, error) { return struct{}{}, s.complete(path, &m) })
	return path, err
}

// complete makes a set of files that are durable, and removes the oldest set.
func (s *Saver) complete(path string, m *manifest) error {
	content, err := m.encode()
	if err != nil {
		return err
	}
	for _, folder := range []string{path, s.dir} { // of the files, of the folder itself
		if err := durable.Sync(folder); err != nil {
			return err
		}
	}
	if err := durable.Write(filepath.Join(path, manifestName), bytes.NewReader(content)); err != nil {
		return err
	}
	return retain(s.dir, path, s.keep)
}

// writeFile writes a rank's file and makes it durable.
func writeFile(folder, name string, step int, id string, tensors []Tensor) (f file, err error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return f, err
	}
	f.Name = name
	path := filepath.Join(folder, name)
	var infos []safetensors.Info
	for _, t := range tensors {
		info := safetensors.Info{Name: t.Name, DType: aclnn.Float32, Shape: []int{}}
		for _, d := range t.Local() {
			info.Shape = append(info.Shape, int(d))
		}
		infos = append(infos, info, safetensors.Info{Name: t.Name + sumsSuffix, DType: aclnn.Uint32, Shape: []int{int(segments(t.Part, t.segment()))}})
	}
	w, err := safetensors.Create(path, infos, map[string]string{"step": fmt.Sprint(step), "id": id})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, t := range tensors {
		f.Tensors = append(f.Tensors, stored{t.Part, t.segment()})
		err := w.Write(t.Name, bytesOf(t.Values))
		if err == nil {
			err = w.Write(t.Name+sumsSuffix, sums(t.Values, t.segment()))
		}
		if err != nil {
			return f, err
		}
	}
	if err := w.Commit(); err != nil {
		return f, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	f.Size = info.Size()
	f.Header, err = headerSum(path)
	return f, err
}
