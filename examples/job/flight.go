package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/durable"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// Flight is a rank's flight record: what it did last, written when the job ends by a fault.
type Flight struct {
	Rank     int              `json:"rank"`
	Size     int              `json:"size"`
	Host     string           `json:"host"`
	Process  int              `json:"process"`
	At       time.Time        `json:"at"`
	Why      string           `json:"why"`
	Progress []world.Progress `json:"progress"` // of this rank's communicators
	Launches []acl.Launched   `json:"launches"`
	Queued   []hccl.Queued    `json:"queued"` // collectives and exchanges
}

// flightLimit is how many launches, and collectives, a record has.
const flightLimit = 1000

// Record writes the flight record of a rank to a folder, which it makes. It waits for no device. dev
// is the rank's device, whose work is recorded; a nil device has none.
func Record(dir string, rank, size int, dev *acl.Device, why string, progress []world.Progress) (path string, err error) {
	f := Flight{Rank: rank, Size: size, Process: os.Getpid(), At: time.Now(), Why: why, Progress: progress}
	f.Host, _ = os.Hostname()
	f.Launches = dev.LastLaunches(flightLimit)
	for _, q := range hccl.LastQueued(flightLimit) {
		if q.Device == dev.ID() {
			f.Queued = append(f.Queued, q)
		}
	}
	content, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("flight-rank-%d-of-%d.json", rank, size))
	return path, durable.Write(path, bytes.NewReader(content))
}

// FlightNames lists the files with records in a folder.
func FlightNames(dir string) ([]string, error) {
	return fs.Glob(os.DirFS(dir), "flight-rank-*.json")
}

// ReadFlights reads the records in a folder. A file that cannot be parsed is an error that comes with
// the records that can.
func ReadFlights(dir string) (all []Flight, err error) {
	names, err := FlightNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		content, failed := os.ReadFile(path)
		var f Flight
		if failed == nil {
			failed = json.Unmarshal(content, &f)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, failed))
			continue
		}
		all = append(all, f)
	}
	if len(all) == 0 && err == nil {
		err = fmt.Errorf("%s has no flight records", dir)
	}
	return all, err
}
