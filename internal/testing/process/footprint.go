package process

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Footprint counts what a process holds of the operating system's resources.
type Footprint struct {
	files, goroutines int
	Shared            int // mappings of memory that it may share with others
}

// Measure counts for this process. Shared memory is counted by its mappings, because a segment
// stays mapped when its file is closed.
func Measure() Footprint {
	files, _ := os.ReadDir("/proc/self/fd")
	maps, _ := os.ReadFile("/proc/self/maps")
	return Footprint{len(files), runtime.NumGoroutine(), bytes.Count(maps, []byte("/memfd:"))}
}

// Settle waits at most d until this process holds no more than f and more returns nothing. It
// returns what is still held, in words.
func (f Footprint) Settle(d time.Duration, more func() []string) string {
	for deadline := time.Now().Add(d); ; runtime.Gosched() {
		left := more()
		now := Measure()
		for _, x := range []struct {
			now, before int
			what        string
		}{{now.files, f.files, "files"}, {now.goroutines, f.goroutines, "goroutines"}, {now.Shared, f.Shared, "mappings of shared memory"}} {
			if x.now > x.before {
				left = append(left, fmt.Sprintf("%d %s", x.now-x.before, x.what))
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, ", ")
		}
	}
}
