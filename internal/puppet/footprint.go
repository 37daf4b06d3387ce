package puppet

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Footprint is what a process holds of its system.
type Footprint struct {
	files, goroutines int
	Shared            int // mappings of memory that it may share with others
}

// Measure is this process's footprint. Shared memory counts by its mappings, since nothing
// else tells of a segment whose file is closed.
func Measure() Footprint {
	files, _ := os.ReadDir("/proc/self/fd")
	maps, _ := os.ReadFile("/proc/self/maps")
	return Footprint{len(files), runtime.NumGoroutine(), bytes.Count(maps, []byte("/memfd:"))}
}

// Settle waits at most d until this process has no more than f, and what more tells of
// nothing; it returns what is left.
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
