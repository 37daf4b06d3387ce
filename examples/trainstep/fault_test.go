package main

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// faultLayouts are the runs in which every call fails in turn. The smallest models do.
var faultLayouts = map[string]string{
	"alone":   "-dtype bf16 -micro 2",
	"graph":   "-graph",
	"tp2 dp2": "-ranks 4 -tp 2",
	"tp2 pp2": "-ranks 4 -tp 2 -pp 2 -layers 2 -micro 2",
	"cp2 dp2": "-ranks 4 -cp 2",
	"ep2 dp2": "-ranks 4 -ep 2 -model qwen3_moe",
	"tp2 ep2": "-ranks 4 -tp 2 -ep 2 -sp -model qwen3_moe -dtype bf16 -gmm-nz",
	"fsdp":    "-ranks 4 -fsdp",
	"ulysses": "-ranks 4 -cp 4 -ulysses 4 -fsdp -model qwen3_5_text -layers 2 -full-interval 2 -heads 4 -kv-heads 4",
}

// TestFaults: whichever call of CANN fails in a step, or whichever work on a stream, the program
// returns an error that names it first, leaves nothing open, and trains again in the same process.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	var sweep acltest.Sweep
	for _, name := range slices.Sorted(maps.Keys(faultLayouts)) {
		flags := faultLayouts[name]
		t.Run(name, func(t *testing.T) {
			flags := append([]string{
				"-data", "testdata/rhyme.txt", "-layers", "1", "-hidden", "32", "-intermediate", "32", "-heads", "2", "-kv-heads", "2", "-head-dim", "16",
				"-experts", "4", "-expert-size", "16", "-batch", "4", "-seq", "16", "-steps", "1", "-watchdog", "0",
			}, strings.Fields(flags)...)
			sweep.Run(t, func(t *testing.T) error {
				o, err := parseFlags(flags, io.Discard)
				require.NoError(t, err)
				err = run(t.Context(), o, new(bytes.Buffer))
				assert.Empty(t, acl.Live(), "left open")
				return err
			})
		})
	}
}
