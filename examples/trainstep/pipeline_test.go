package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPipelineSchedules: every schedule trains as one rank does, goes on from the checkpoint of another one, and exports the same model. The drawing needs no device.
func TestPipelineSchedules(t *testing.T) {
	small := slices.Clip(smallFlags("-layers", "4", "-steps", "6", "-micro", "4"))
	_, one := trained(t, small...)
	for _, flags := range []string{"1f1b", "interleaved -pp-chunks 2", "zero-bubble"} {
		t.Run(flags, func(t *testing.T) {
			dir := t.TempDir()
			schedule := slices.Clip(append(small, strings.Fields("-ranks 2 -pp 2 -pp-schedule "+flags)...))
			trained(t, append(schedule, "-steps", "3", "-save", filepath.Join(dir, "half"), "-export", filepath.Join(dir, "export"))...)
			require.FileExists(t, filepath.Join(dir, "export", "model.safetensors"))
			_, resumed := trained(t, append(small, "-resume", filepath.Join(dir, "half"))...)
			_, straight := trained(t, append(schedule, "-resume", filepath.Join(dir, "half"))...)
			require.InEpsilon(t, resumed, straight, 1e-3)
			_, whole := trained(t, schedule...)
			require.InEpsilon(t, one, whole, 1e-3)

			file := filepath.Join(dir, "schedule.svg")
			o, err := parseFlags(append(schedule, "-pp-draw", file), t.Output())
			require.NoError(t, err)
			require.NoError(t, run(t.Context(), o, t.Output()))
			drawing, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, strings.Count(flags, "zero") > 0, strings.Contains(string(drawing), "weights of micro-batch 3"))
		})
	}
}
