//go:build !linux

package checkpoint

import (
	"os"
	"path/filepath"
)

// CANN exists for Linux only. On other systems nothing keeps two jobs from saving to one folder.

func lock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o666)
}
