//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// starter stands for srun and mpirun: it starts eight ranks with variables that the real ones set. Their
// options come before the program.
const starter = `#!/bin/bash
while [[ $1 != */trainstep ]]; do shift; done
for rank in {0..7}; do
	%s "$@" &
done
for rank in {0..7}; do wait -n || exit; done
`

// program stands for the program, and has its flags from the arguments.
const program = `#!/bin/bash
exec env %s="$*" %q
`

// TestJobScripts: the scripts for Slurm and mpirun start a job, which trains and saves.
func TestJobScripts(t *testing.T) {
	acltest.Need(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	model, data := hubFolder(t, "qwen3_tied")
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct{ script, starter, variables string }{
		{"trainstep.sbatch", "srun", "SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost SLURM_NTASKS=8 SLURM_PROCID=$rank SLURM_LOCALID=$rank"},
		{"trainstep-mpirun.sh", "mpirun", "PMIX_NAMESPACE=$$ OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_SIZE=8 OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank"},
	} {
		t.Run(c.script, func(t *testing.T) {
			dir, output := t.TempDir(), filepath.Join(t.TempDir(), "new") // the job makes the folder
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.starter), fmt.Appendf(nil, starter, c.variables), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "trainstep"), fmt.Appendf(nil, program, argumentsVariable, self), 0o700))
			script := exec.CommandContext(t.Context(), "bash", filepath.Join("..", "deploy", c.script))
			script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TRAINSTEP="+filepath.Join(dir, "trainstep"),
				"MODEL="+model, "DATA="+data, "OUTPUT="+output, "STEPS=2")
			out, err := script.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, 1, strings.Count(string(out), "step 2/2"), string(out))
			saved, err := filepath.Glob(filepath.Join(output, "step-00000002-*", "manifest.json"))
			require.NoError(t, err)
			assert.Len(t, saved, 1)
		})
	}
}
