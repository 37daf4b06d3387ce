package safetensors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// draft is a file under a temporary name.
type draft struct {
	path  string // where it will be
	file  *os.File
	start int64 // of the elements
	open  bool
	there bool // under its temporary name
}

func newDraft(path string, header []byte, size int64) (*draft, error) {
	// Unlike os.CreateTemp, this gives the file the permissions the umask asks for.
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%016x.tmp", filepath.Base(path), rand.Uint64()))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	d := &draft{path: path, file: file, start: int64(len(header)), open: true, there: true}
	_, err = file.Write(header)
	if err == nil {
		err = file.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(&Error{Path: path, Err: err}, d.discard())
	}
	return d, nil
}

// seal makes the bytes durable.
func (d *draft) seal() error {
	err := d.file.Sync()
	d.open = false
	if err = errors.Join(err, d.file.Close()); err != nil {
		return &Error{Path: d.path, Err: err}
	}
	return nil
}

// publish gives the file its name.
func (d *draft) publish() error {
	if err := os.Rename(d.file.Name(), d.path); err != nil {
		return &Error{Path: d.path, Err: err}
	}
	d.there = false
	return nil
}

// discard removes what is still temporary.
func (d *draft) discard() error {
	var errs []error
	if d.open {
		errs = append(errs, d.file.Close())
	}
	if d.there {
		errs = append(errs, os.Remove(d.file.Name()))
	}
	d.open, d.there = false, false
	return errors.Join(errs...)
}

// syncFolder makes renames durable, where the system can do that.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return &Error{Path: path, Err: err}
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return &Error{Path: path, Err: err}
	}
	return nil
}
