package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lookup is an environment for DetectFrom.
func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		s, ok := vars[name]
		return s, ok
	}
}

func torchrun(rank, size string, more ...string) map[string]string {
	return with(map[string]string{
		"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
		"MASTER_ADDR": "10.0.0.5", "MASTER_PORT": "29511",
	}, more...)
}

func with(vars map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range vars {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

var (
	openMPI = map[string]string{
		"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
		"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "prte-7",
	}
	slurm = map[string]string{
		"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
		"SLURM_STEP_NODELIST": "npu[007-008,12]", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0",
	}
	// What Open MPI 4.1.4 sets, and Slurm 22.05 for a rank and for a batch script, as far as it is about
	// ranks.
	openMPI4 = map[string]string{
		"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
		"OMPI_COMM_WORLD_NODE_RANK": "1", "PMIX_NAMESPACE": "1570308097", "PMIX_RANK": "1", "PMIX_HOSTNAME": "vm", "PMIX_ID": "1570308097.1",
	}
	slurm22 = map[string]string{
		"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_GTIDS": "0,1", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_NNODES": "1",
		"SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
		"SLURM_NODELIST": "vm", "SLURM_JOB_NODELIST": "vm", "SLURM_STEP_NODELIST": "vm", "SLURMD_NODENAME": "vm", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
	}
	slurmBatch = map[string]string{
		"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_GTIDS": "0", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NNODES": "1",
		"SLURM_JOB_ID": "3", "SLURM_JOBID": "3", "SLURM_TASKS_PER_NODE": "4", "SLURM_NODELIST": "vm", "SLURM_JOB_NODELIST": "vm", "SLURMD_NODENAME": "vm",
	}
)

func TestWorldFrom(t *testing.T) {
	table := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(table, []byte(twoServers), 0o644))
	ownPort := func(job string) string { return fmt.Sprint("127.0.0.1:", jobPort(job)) }
	slurmAddress := fmt.Sprintf("npu007:%d", jobPort("4711.0"))
	for _, c := range []struct {
		name string
		vars map[string]string
		want Place
	}{
		{"torchrun", torchrun("1", "2", EnvSecret, "s", "TORCHELASTIC_RUN_ID", "run"),
			Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Device: 1, Address: "10.0.0.5:29511", Secret: "s", Job: "run", Launcher: "torchrun"}},
		{"torchrun's agent keeps the port", torchrun("1", "2", "TORCHELASTIC_USE_AGENT_STORE", "True"),
			Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Device: 1, Address: "10.0.0.5:29512", Launcher: "torchrun"}},
		{"default port", map[string]string{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "::1"},
			Place{Rank: 5, Size: 8, LocalRank: 1, Device: 1, Address: "[::1]:29500", Launcher: "torchrun"}},
		{"own variable wins", torchrun("0", "2", EnvRendezvous, "h:1"),
			Place{Size: 2, LocalSize: 2, Address: "h:1", Launcher: "torchrun"}},
		{"one rank needs no rendezvous", map[string]string{"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
			Place{Size: 1, Launcher: "torchrun"}},
		{"a pod of one device under the ascend-operator", map[string]string{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "svc", "MASTER_PORT": "2222"},
			Place{Rank: 1, Size: 2, LocalSize: 1, Address: "svc:2222", Launcher: "torchrun"}},
		{"Open MPI on one host", openMPI,
			Place{Rank: 3, Size: 4, LocalRank: 3, LocalSize: 4, Device: 3, Address: ownPort("prte-7"), Job: "prte-7", Launcher: "Open MPI"}},
		{"another job of Open MPI on the host", openMPI4,
			Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Device: 1, Address: ownPort("1570308097"), Job: "1570308097", Launcher: "Open MPI"}},
		{"Open MPI with a port", with(openMPI4, "MASTER_PORT", "4000"),
			Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Device: 1, Address: "127.0.0.1:4000", Job: "1570308097", Launcher: "Open MPI"}},
		{"Slurm on one host", slurm22,
			Place{Rank: 1, Size: 2, LocalRank: 1, Device: 1, Address: fmt.Sprint("vm:", jobPort("1.0")), Job: "1.0", Launcher: "Slurm"}},
		{"a batch script of one task", with(slurmBatch, "SLURM_NTASKS", "1", "SLURM_NPROCS", "1"),
			Place{Size: 1, Job: "3", Launcher: "Slurm"}},
		{"Open MPI on several hosts", with(openMPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_RANK", "1", "MASTER_ADDR", "h"),
			Place{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Device: 1, Address: "h:29500", Job: "prte-7", Launcher: "Open MPI"}},
		{"Slurm", slurm,
			Place{Rank: 9, Size: 16, LocalRank: 1, Device: 1, Address: slurmAddress, Job: "4711.0", Launcher: "Slurm"}},
		{"Slurm with a port", with(slurm, "MASTER_PORT", "4000"),
			Place{Rank: 9, Size: 16, LocalRank: 1, Device: 1, Address: "npu007:4000", Job: "4711.0", Launcher: "Slurm"}},
		{"torchrun in a Slurm step", with(slurm, "RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "MASTER_ADDR", "m"),
			Place{Rank: 1, Size: 2, LocalRank: 1, Device: 1, Address: "m:29500", Launcher: "torchrun"}},
		{"MPICH", map[string]string{"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"},
			Place{Size: 2, LocalSize: 2, Address: "127.0.0.1:29500", Launcher: "MPICH"}},
		{"rank table", map[string]string{"RANK_ID": "1", "RANK_SIZE": "4", "RANK_TABLE_FILE": table},
			Place{Rank: 1, Size: 4, LocalRank: 1, LocalSize: 2, Device: 5, Address: "10.7.0.111:29500", Launcher: "rank table"}},
		{"rank table and visible devices", map[string]string{"RANK_ID": "1", "RANK_TABLE_FILE": table, "ASCEND_RT_VISIBLE_DEVICES": "4, 5"},
			Place{Rank: 1, Size: 4, LocalRank: 1, LocalSize: 2, Device: 1, Address: "10.7.0.111:29500", Launcher: "rank table"}},
		{"one device of its own", torchrun("1", "2", "ASCEND_RT_VISIBLE_DEVICES", "6"),
			Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Address: "10.0.0.5:29511", Launcher: "torchrun"}},
		{"torchrun with a rank table", torchrun("3", "4", "RANK_TABLE_FILE", table),
			Place{Rank: 3, Size: 4, LocalRank: 3, LocalSize: 4, Device: 1, Address: "10.0.0.5:29511", Launcher: "torchrun"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := DetectFrom(lookup(c.vars))
			require.NoError(t, err)
			assert.Equal(t, c.vars["RANK_TABLE_FILE"] != "", w.Table != nil)
			w.Table = nil
			assert.Equal(t, c.want, w)
		})
	}
}

func TestWorldFromFaults(t *testing.T) {
	table := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(table, []byte(twoServers), 0o644))
	for _, c := range []struct {
		name   string
		vars   map[string]string
		names  []string
		detail string
	}{
		{"no size", map[string]string{"RANK": "0", "LOCAL_RANK": "0"}, []string{"RANK", "LOCAL_RANK"}, "without WORLD_SIZE"},
		{"no local rank", map[string]string{"RANK": "0", "WORLD_SIZE": "2"}, []string{"RANK", "WORLD_SIZE"}, "without LOCAL_RANK"},
		{"a batch script", slurmBatch, []string{"SLURM_PROCID", "SLURM_NTASKS"}, "the batch script, which is no rank; start the program by srun"},
		{"the shell of an allocation", map[string]string{"SLURM_NTASKS": "8"}, []string{"SLURM_NTASKS"}, "srun"},
		{"pod of the ascend-operator", torchrun("0", "16", "LOCAL_RANK", "0,1,2,3,4,5,6,7"), []string{"LOCAL_RANK"}, "examples/launch"},
		{"pod of MindSpore", map[string]string{"MS_NODE_RANK": "0", "MS_WORKER_NUM": "8"}, []string{"MS_NODE_RANK"}, "examples/launch"},
		{"not a number", torchrun("x", "2"), []string{"RANK"}, "not a count"},
		{"negative", torchrun("-1", "2"), []string{"RANK"}, "not a count"},
		{"rank too large", torchrun("2", "2", "LOCAL_RANK", "0"), nil, "rank 2 of 2"},
		{"local rank too large", torchrun("1", "2", "LOCAL_WORLD_SIZE", "1"), nil, "local rank 1 of 1"},
		{"size zero", torchrun("0", "0"), nil, "at least one rank"},
		{"no address of the rendezvous", map[string]string{"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, nil, "MASTER_ADDR"},
		{"address without port", torchrun("0", "2", EnvRendezvous, "host"), nil, "not host:port"},
		{"too few devices", torchrun("2", "4", "ASCEND_RT_VISIBLE_DEVICES", "0,1"), []string{"ASCEND_RT_VISIBLE_DEVICES"}, "finds only 2"},
		{"devices", torchrun("0", "4", "ASCEND_RT_VISIBLE_DEVICES", "0,x"), []string{"ASCEND_RT_VISIBLE_DEVICES"}, "list of device numbers"},
		{"hosts of Slurm", with(slurm, "SLURM_STEP_NODELIST", "npu[1-"), []string{"SLURM_STEP_NODELIST"}, "not a list of hosts"},
		{"rank id without a table", map[string]string{"RANK_ID": "0"}, []string{"RANK_ID"}, "without RANK_TABLE_FILE"},
		{"rank size against the table", map[string]string{"RANK_ID": "0", "RANK_SIZE": "8", "RANK_TABLE_FILE": table}, []string{"RANK_SIZE", "RANK_TABLE_FILE"}, "lists 4 ranks"},
		{"rank id beyond the table", map[string]string{"RANK_ID": "4", "RANK_TABLE_FILE": table}, []string{"RANK_ID", "RANK_TABLE_FILE"}, "ranks 0 to 3"},
		{"device of the table not visible", map[string]string{"RANK_ID": "0", "RANK_TABLE_FILE": table, "ASCEND_RT_VISIBLE_DEVICES": "0,1"}, []string{"ASCEND_RT_VISIBLE_DEVICES", "RANK_TABLE_FILE"}, "not visible"},
		{"table of another job", torchrun("1", "2", "RANK_TABLE_FILE", table), nil, "lists 4 ranks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := DetectFrom(lookup(c.vars))
			require.ErrorIs(t, err, ErrEnvironment)
			assert.Equal(t, Place{}, w)
			var e *EnvError
			require.ErrorAs(t, err, &e)
			assert.NotEmpty(t, e.Launcher)
			assert.ElementsMatch(t, c.names, e.Names, "%v", err)
			assert.Contains(t, err.Error(), c.detail)
		})
	}
	_, err := DetectFrom(lookup(nil))
	require.ErrorIs(t, err, ErrNoLauncher)
	require.ErrorContains(t, err, "world.Alone")
	_, err = DetectFrom(lookup(torchrun("0", "2", "RANK_TABLE_FILE", table+"x")))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWorldCheck(t *testing.T) {
	require.NoError(t, Alone().Check())
	for _, w := range []Place{
		{}, {Size: 2, Rank: 2, Address: "h:1"}, {Size: 2, Rank: -1, Address: "h:1"}, {Size: 2}, {Size: 2, Address: "h"},
		{Size: 1, Device: -1}, {Size: 2, LocalSize: 3, Address: "h:1"}, {Size: 2, LocalSize: 1, LocalRank: 1, Address: "h:1"},
	} {
		require.ErrorIs(t, w.Check(), ErrPlace, "%v", w)
	}
	w := Place{Size: 2, Address: "h:1", Secret: "hunter2", Launcher: "torchrun"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.NotContains(t, fmt.Sprintf(format, w), "hunter2")
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"a": "a", "a,b[1-2]": "a", "npu[03-05,9],login": "npu03", "npu[7]": "npu7", "n[1-2]-ib": "n1-ib",
		"n[1-2]-ib,m[3-4]": "n1-ib", "row[1-2]node[0-3]": "row1node0", "10.0.0.1,10.0.0.2": "10.0.0.1",
	} {
		host, err := firstHost(list)
		require.NoError(t, err, list)
		assert.Equal(t, want, host, list)
	}
	for _, list := range []string{"", ",a", "n[", "n[]", "n[a-b]", "n[1-2", "a b"} {
		_, err := firstHost(list)
		require.Error(t, err, list)
	}
}

func FuzzFirstHost(f *testing.F) {
	f.Add("row[1-2]node[0-3],x")
	f.Fuzz(func(t *testing.T, list string) {
		host, err := firstHost(list)
		if err == nil {
			require.NotEmpty(t, host)
			require.NotContains(t, host, ",")
		}
	})
}

// Whatever the variables are, the place is either refused or valid.
func FuzzWorldFrom(f *testing.F) {
	names := []string{
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
		"SLURM_STEP_NODELIST", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "ASCEND_RT_VISIBLE_DEVICES", "RANK_ID", EnvRendezvous,
	}
	f.Add("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=h")
	f.Add("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_NODELIST=a[1-2]")
	f.Add("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 ASCEND_RT_VISIBLE_DEVICES=1,2")
	f.Fuzz(func(t *testing.T, text string) {
		vars := map[string]string{}
		for field := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(field, "=")
			if slices.Contains(names, name) {
				vars[name] = value
			}
		}
		w, err := DetectFrom(lookup(vars))
		if err != nil {
			var e *EnvError
			require.ErrorAs(t, err, &e)
			return
		}
		require.NoError(t, w.Check())
	})
}

func TestOpen(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true} {
		p, err := DetectFrom(lookup(torchrun("0", "2", EnvOpen, value)))
		require.NoError(t, err)
		assert.Equal(t, want, p.Open)
	}
	_, err := DetectFrom(lookup(torchrun("0", "2", EnvOpen, "perhaps")))
	require.ErrorIs(t, err, ErrEnvironment)
	require.ErrorContains(t, err, EnvOpen)
}
