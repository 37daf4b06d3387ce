package acl

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goascend/cann/internal/abi"
)

// logFolder is where CANN writes the logs of processes: ASCEND_PROCESS_LOG_PATH, else the folder log of
// ASCEND_WORK_PATH, else ascend/log in the home directory.
func logFolder() string {
	if dir := os.Getenv("ASCEND_PROCESS_LOG_PATH"); dir != "" {
		return dir
	}
	if dir := os.Getenv("ASCEND_WORK_PATH"); dir != "" {
		return filepath.Join(dir, "log")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, "ascend", "log")
	}
	return ""
}

// processLog returns a pattern for the files of CANN's log of this process, or "" if there are none.
func processLog() string {
	dir := logFolder()
	if dir == "" {
		return ""
	}
	for _, kind := range []string{"debug", "run"} {
		folder, pattern := filepath.Join(dir, kind, "plog"), fmt.Sprintf("plog-%d_*.log", os.Getpid())
		if found, err := fs.Glob(os.DirFS(folder), pattern); err == nil && len(found) > 0 {
			return filepath.Join(folder, pattern)
		}
	}
	return ""
}

// logHint points to CANN's log for a code that it explains better than the text of the error: a fault
// inside CANN or of the device, and what aclnn reports of both.
func logHint(c Code) string {
	if c < 500000 && c != abi.ACLNN_ERR_RUNTIME_ERROR {
		return ""
	}
	if pattern := processLog(); pattern != "" {
		return "CANN's log of this process is " + pattern
	}
	return ""
}
