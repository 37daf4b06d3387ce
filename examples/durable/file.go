package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Write writes a file that appears under its name when it is complete, and survives the loss of power. It has what
// from gives. Until then the content is in a file beside it whose name ends in .tmp.
func Write(path string, from io.Reader) (err error) {
	temporary := path + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return Sync(filepath.Dir(path))
}

// Sync makes the names in a folder durable, where the system can do that.
func Sync(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
