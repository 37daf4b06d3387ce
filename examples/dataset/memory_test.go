package dataset_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/dataset"
)

// badEvery is the distance between the samples that cannot be used.
const badEvery = 10_000

// many writes a file of samples, one after the other, with bad ones between them.
func many(t *testing.T, ext string, n int) string {
	path := filepath.Join(t.TempDir(), "many"+ext)
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriterSize(f, 1<<20)
	add := func(text string) error {
		if text == "" {
			_, err := fmt.Fprintln(w, `{"text": 5}`)
			return err
		}
		_, err := fmt.Fprintf(w, "{\"text\": %q}\n", text)
		return err
	}
	end := w.Flush
	if ext == ".parquet" {
		type row struct {
			Text *string `parquet:"text"`
		}
		table := parquet.NewGenericWriter[row](w, parquet.MaxRowsPerRowGroup(100_000))
		add = func(text string) error {
			r := row{&text}
			if text == "" {
				r.Text = nil
			}
			_, err := table.Write([]row{r})
			return err
		}
		end = func() error {
			if err := table.Close(); err != nil {
				return err
			}
			return w.Flush()
		}
	}
	for i := range n {
		text := fmt.Sprintf("sample %d of many, made up for this test", i)
		if (i+1)%badEvery == 0 {
			text = ""
		}
		require.NoError(t, add(text))
	}
	require.NoError(t, end())
	require.NoError(t, f.Close())
	return path
}

// used returns the bytes of the heap that are in use, and those of the process that are in memory, 0 where
// the system does not report them.
func used(t *testing.T) (heap, resident uint64) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m.HeapAlloc, 0
	}
	if found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status); found != nil {
		resident, err = strconv.ParseUint(string(found[1]), 10, 64)
		require.NoError(t, err)
	}
	return m.HeapAlloc, resident << 10
}

// TestManySamples: memory does not grow with the number of samples, and every bad one is counted, the
// first that is met by its place. There are a million samples, with -short a tenth.
func TestManySamples(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n /= 10
	}
	for _, ext := range []string{".jsonl", ".parquet"} {
		t.Run(ext, func(t *testing.T) {
			d := open(t, many(t, ext, n), dataset.Options{End: 0})
			var early, most, earlyResident, mostResident uint64
			looked := 0
			for d.Position().Epoch == 0 {
				_, err := d.Rows(64, 1024, dataset.Packed, 1)
				require.NoError(t, err)
				if read := d.Report().Samples; read >= looked+n/20 || early == 0 && read > 10_000 {
					heap, resident := used(t)
					if early == 0 {
						early, earlyResident = heap, resident
					}
					looked, most, mostResident = read, max(most, heap), max(mostResident, resident)
				}
			}
			r := d.Report()
			require.GreaterOrEqual(t, r.Samples, n)
			require.GreaterOrEqual(t, r.Bad, n/badEvery)
			require.LessOrEqual(t, r.Bad, n/badEvery+1, "the last rows may have some of the next epoch")
			place := regexp.MustCompile(`many\` + ext + `:(?:row )?(\d+): `).FindStringSubmatch(r.FirstBad.Error())
			require.NotNil(t, place, r.FirstBad)
			line, err := strconv.Atoi(place[1])
			require.NoError(t, err)
			require.Zero(t, line%badEvery, "the line of a bad sample")
			require.Less(t, most, early+8<<20, "bytes of the heap")
			t.Logf("%v; heap %.1f MB after 10,000 samples, at most %.1f MB; resident %.1f and %.1f MB",
				r, float64(early)/1e6, float64(most)/1e6, float64(earlyResident)/1e6, float64(mostResident)/1e6)
		})
	}
}
