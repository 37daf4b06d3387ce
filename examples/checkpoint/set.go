package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/hccl/world"
)

// Set is a complete checkpoint, open for reading.
type Set struct {
	path     string
	manifest *manifest
	digest   [sha256.Size]byte // of the manifest's file
	places   map[string][]place
	open     map[string]*safetensors.File
}

// place locates a part of a tensor in the files of a set.
type place struct {
	stored
	file *file
}

// Find reports whether a path is a folder of checkpoints, or one of them.
func Find(path string) bool {
	_, err := newest(path)
	return err == nil
}

// newest is the path itself if it is a set, or else the newest complete set in it.
func newest(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, manifestName)); err == nil {
		return path, nil
	}
	all, err := list(path)
	if err != nil {
		return "", err
	}
	for _, l := range all {
		if l.complete {
			return l.path, nil
		}
	}
	return "", fmt.Errorf("checkpoint: %s: %w", path, ErrNone)
}

// Open opens the newest complete set in a folder, or the set whose folder path is. It checks the
// manifest, and that all files are there with their sizes.
func Open(path string) (*Set, error) {
	path, err := newest(path)
	if err != nil {
		return nil, err
	}
	return openSet(path)
}

// Agree is Open on all ranks of a group: rank 0 chooses the set, and ranks that see other files
// there, or cannot open it, fail all of them.
func Agree(ctx context.Context, group *world.Group, path string) (*Set, error) {
	chosen, err := world.Share(ctx, group, 0, func() (string, error) { return newest(path) })
	if err != nil {
		return nil, err
	}
	s, failed := openSet(chosen)
	type view struct{ Digest, Error string }
	var mine view
	if failed != nil {
		mine.Error = failed.Error()
	} else {
		mine.Digest = fmt.Sprintf("%x", s.digest)
	}
	all, err := world.AllGather(ctx, group, mine)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for rank, v := range all {
		switch {
		case failed != nil:
		case v.Error != "":
			failed = fmt.Errorf("rank %d: %s", rank, v.Error)
		case v.Digest != all[0].Digest:
			failed = fmt.Errorf("checkpoint: %s is not the same on ranks 0 and %d: %w", filepath.Join(chosen, manifestName), rank, ErrMixed)
		}
	}
	if failed != nil {
		return nil, failed
	}
	return s, nil
}

// mostManifest is the largest size in bytes of a manifest: of some million tensors.
const mostManifest = 256 << 20

func openSet(path string) (*Set, error) {
	name := filepath.Join(path, manifestName)
	content, err := budget.ReadFile(name, mostManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %s: %w", path, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(name, content)
	if err != nil {
		return nil, err
	}
	s := &Set{path: path, manifest: m, digest: sha256.Sum256(content), places: map[string][]place{}, open: map[string]*safetensors.File{}}
	for i := range m.Files {
		f := &m.Files[i]
		info, err := os.Stat(filepath.Join(path, f.Name))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("checkpoint: %s is no regular file: %v", filepath.Join(path, f.Name), info.Mode())
		}
		if info.Size() != f.Size {
			return nil, fmt.Errorf("checkpoint: %s has %d bytes, %d were written: %w", filepath.Join(path, f.Name), info.Size(), f.Size, ErrCorrupt)
		}
		for _, t := range f.Tensors {
			s.places[t.Name] = append(s.places[t.Name], place{t, f})
		}
	}
	return s, nil
}

// Path is the folder of the set.
func (s *Set) Path() string { return s.path }

// About returns the description in the manifest of the set.
func (s *Set) About() About { return s.manifest.About }

// Tensors lists the tensors of the set, whole and by name.
func (s *Set) Tensors() (whole []Part) {
	for _, name := range slices.Sorted(maps.Keys(s.places)) {
		whole = append(whole, Part{Name: name, Shape: s.places[name][0].Shape})
	}
	return whole
}

// Close closes the files.
func (s *Set) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, f := range s.open {
		errs = append(errs, f.Close())
	}
	clear(s.open)
	return errors.Join(errs...)
}

// complete refuses parts that are not all parts of one tensor, each once.
func complete(places []place) error {
	if len(places) == 0 {
		return ErrMissing
	}
	seen := make(map[int64]bool)
	for _, at := range places {
		if !at.alike(places[0].Part) || seen[at.number()] {
			return fmt.Errorf("%v does not go with %v: %w", at.Part, places[0].Part, ErrMixed)
		}
		seen[at.number()] = true
	}
	if missing := places[0].parts() - int64(len(places)); missing > 0 {
		return fmt.Errorf("%d of %d parts are not there: %w", missing, places[0].parts(), ErrMissing)
	}
	return nil
}

// file opens a file of the set once, and checks its header.
func (s *Set) file(want *file) (*safetensors.File, error) {
	if f := s.open[want.Name]; f != nil {
		return f, nil
	}
	path := filepath.Join(s.path, want.Name)
	sum, err := headerSum(path)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(path)
	if sum != want.Header {
		return nil, s.stranger(path, f, sum, want.Header)
	}
	if err != nil {
		return nil, err
	}
	s.open[want.Name] = f
	return f, nil
}

// stranger is the error for a file with another header than the one that was written. f is nil if it
// cannot be parsed.
func (s *Set) stranger(path string, f *safetensors.File, sum, want uint32) error {
	err := fmt.Errorf("checkpoint: %s: its header: %w: checksum %08x, was %08x", path, ErrCorrupt, sum, want)
	if f == nil {
		return err
	}
	if about := f.Metadata(); about["id"] != s.manifest.ID {
		err = fmt.Errorf("checkpoint: %s is of save %s at step %s, and %s of save %s at step %d: %w", path, about["id"], about["step"], manifestName, s.manifest.ID, s.manifest.Step, ErrMixed)
	}
	return errors.Join(err, f.Close())
}

// headerSum is the checksum of a safetensors file up to the elements.
func headerSum(path string) (sum uint32, err error) {
	f, err := budget.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var length [8]byte
	if _, err := io.ReadFull(f, length[:]); err != nil {
		return 0, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	h := crc32.New(castagnoli)
	_, _ = h.Write(length[:])
	// A damaged length reaches beyond the file at most.
	if _, err := io.Copy(h, io.LimitReader(f, int64(binary.LittleEndian.Uint64(length[:])&(1<<62-1)))); err != nil {
		return 0, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	return h.Sum32(), nil
}
