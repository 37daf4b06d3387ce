package hccl

import (
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Variables of this package. They go before what launchers set.
const (
	// EnvRendezvous is host:port where rank 0 listens.
	EnvRendezvous = "CANN_RENDEZVOUS"
	// EnvSecret is the job's secret, see World.Secret.
	EnvSecret = "CANN_JOB_SECRET"
)

const defaultPort = 29500 // torchrun's

// launcher names the variables of one way to start ranks.
type launcher struct {
	name                             string
	rank, size, localRank, localSize string // localSize may be empty: not said
	job                              []string
	remedy                           string
}

// launchers in the order of preference: mpirun and torchrun often run inside a Slurm job,
// whose variables are then not about ranks.
var launchers = []launcher{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", []string{"TORCHELASTIC_RUN_ID"},
		"start the program by torchrun or by examples/launch, which set all of them"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", []string{"PMIX_NAMESPACE"},
		"start the program by mpirun"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", []string{"SLURM_JOB_ID", "SLURM_STEP_ID"},
		"start the program by srun"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nil,
		"start the program by mpiexec"},
}

// environment reads variables and keeps the first fault.
type environment struct {
	lookup   func(string) (string, bool)
	launcher string
	err      error
}

// WorldFrom reads the variables of torchrun, Open MPI, Slurm, MPICH, or a rank table with
// RANK_ID, in this order; the first of which any is set must be complete. lookup is
// os.LookupEnv or a stand-in.
//
// The ranks meet at CANN_RENDEZVOUS, else at MASTER_ADDR:MASTER_PORT (one port higher when
// torchrun's agent keeps that port for its own store), else on the first host of the Slurm
// step at a port made from the job's number, else on the host of rank 0 in the rank table,
// else, when all ranks are on this host, on 127.0.0.1:29500.
//
// Without any variable the error is ErrNoLauncher, see Alone.
func WorldFrom(lookup func(string) (string, bool)) (World, error) {
	env := &environment{lookup: lookup}
	var w World
	if l, ok := env.launched(); ok {
		w = env.fromLauncher(l)
	} else if env.set("RANK_ID") {
		w = env.fromTable()
	} else if node, ok := env.set("MS_NODE_RANK"), env.set("CM_RANK"); node || ok {
		env.launcher = "ascend-operator"
		env.refuse([]string{"MS_NODE_RANK", "CM_RANK"}, "they describe a pod, not a rank; start the program by examples/launch, which starts one rank per device")
	} else {
		return World{}, &EnvError{Err: ErrNoLauncher, Detail: "start the program by torchrun, mpirun, srun or examples/launch, or use hccl.Alone"}
	}
	w.Secret = env.text(EnvSecret)
	if env.err == nil && w.Table == nil && env.text("RANK_TABLE_FILE") != "" {
		w.Table, env.err = ReadRankTable(env.text("RANK_TABLE_FILE"))
	}
	env.device(&w)
	env.address(&w)
	if env.err != nil {
		return World{}, env.err
	}
	if err := w.Check(); err != nil {
		return World{}, &EnvError{Launcher: w.Launcher, Detail: err.Error(), Err: ErrEnvironment}
	}
	return w, nil
}

func (env *environment) text(name string) string {
	s, _ := env.lookup(name)
	return strings.TrimSpace(s)
}

func (env *environment) set(name string) bool { return name != "" && env.text(name) != "" }

func (env *environment) refuse(names []string, format string, args ...any) {
	if env.err != nil {
		return
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !env.set(n) })
	env.err = &EnvError{Launcher: env.launcher, Names: names, Detail: fmt.Sprintf(format, args...), Err: ErrEnvironment}
}

// number is a count that must be set.
func (env *environment) number(name string) int {
	s := env.text(name)
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		env.refuse([]string{name}, "%q is not a count", s)
	}
	return int(n)
}

// launched is the first launcher that has set one of its variables of the rank.
func (env *environment) launched() (launcher, bool) {
	i := slices.IndexFunc(launchers, func(l launcher) bool {
		return env.set(l.rank) || env.set(l.localRank)
	})
	if i < 0 {
		// A size without ranks: the shell of an allocation, or a forgotten export.
		i = slices.IndexFunc(launchers, func(l launcher) bool { return env.set(l.size) })
	}
	if i < 0 {
		return launcher{}, false
	}
	return launchers[i], true
}

func (env *environment) fromLauncher(l launcher) World {
	env.launcher = l.name
	var missing []string
	for _, name := range []string{l.rank, l.size, l.localRank} {
		if !env.set(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		env.refuse([]string{l.rank, l.size, l.localRank, l.localSize}, "without %s; %s", strings.Join(missing, " and "), l.remedy)
		return World{}
	}
	if strings.Contains(env.text(l.localRank), ",") {
		env.refuse([]string{l.localRank}, "%q lists the devices of a pod, as the ascend-operator does; start the program by examples/launch, which starts one rank per device", env.text(l.localRank))
		return World{}
	}
	w := World{
		Launcher: l.name,
		Rank:     env.number(l.rank), Size: env.number(l.size), LocalRank: env.number(l.localRank),
	}
	if env.set(l.localSize) {
		w.LocalSize = env.number(l.localSize)
	}
	var job []string
	for _, name := range l.job {
		if env.set(name) {
			job = append(job, env.text(name))
		}
	}
	w.Job = strings.Join(job, ".")
	return w
}

// fromTable reads the variables of programs that are started with a rank table.
func (env *environment) fromTable() World {
	env.launcher = "rank table"
	w := World{Launcher: env.launcher, Rank: env.number("RANK_ID")}
	if !env.set("RANK_TABLE_FILE") {
		env.refuse([]string{"RANK_ID", "RANK_SIZE"}, "without RANK_TABLE_FILE; name the rank table, or use a launcher")
	}
	if env.err != nil {
		return w
	}
	if w.Table, env.err = ReadRankTable(env.text("RANK_TABLE_FILE")); env.err != nil {
		return w
	}
	w.Size = w.Table.Size()
	if env.set("RANK_SIZE") && env.number("RANK_SIZE") != w.Size {
		env.refuse([]string{"RANK_SIZE", "RANK_TABLE_FILE"}, "RANK_SIZE is %s, the table lists %d ranks", env.text("RANK_SIZE"), w.Size)
	}
	server, _, ok := w.Table.Device(w.Rank)
	if !ok {
		env.refuse([]string{"RANK_ID", "RANK_TABLE_FILE"}, "RANK_ID is %d, the table lists ranks 0 to %d", w.Rank, w.Size-1)
		return w
	}
	w.LocalRank = w.Rank - server.Devices[0].Rank
	w.LocalSize = len(server.Devices)
	return w
}

// device finds the logical device: ASCEND_RT_VISIBLE_DEVICES renumbers the physical ones.
func (env *environment) device(w *World) {
	var visible []int
	if s := env.text("ASCEND_RT_VISIBLE_DEVICES"); s != "" {
		for part := range strings.SplitSeq(s, ",") {
			id, err := strconv.ParseUint(strings.TrimSpace(part), 10, 31)
			if err != nil {
				env.refuse([]string{"ASCEND_RT_VISIBLE_DEVICES"}, "%q is not a list of device numbers", s)
				return
			}
			visible = append(visible, int(id))
		}
	}
	if w.Table != nil && w.Table.Size() == w.Size {
		_, d, ok := w.Table.Device(w.Rank)
		if !ok {
			return // Check says what is wrong with the rank
		}
		w.Device = d.ID
		if visible == nil {
			return
		}
		if w.Device = slices.Index(visible, d.ID); w.Device < 0 {
			env.refuse([]string{"ASCEND_RT_VISIBLE_DEVICES", "RANK_TABLE_FILE"}, "the table gives rank %d device %d, which is not visible", w.Rank, d.ID)
		}
		return
	}
	w.Device = w.LocalRank
	switch {
	case len(visible) == 1:
		w.Device = 0 // each rank was given one device of its own
	case visible != nil && w.LocalRank >= len(visible):
		env.refuse([]string{"ASCEND_RT_VISIBLE_DEVICES"}, "local rank %d finds only %d devices", w.LocalRank, len(visible))
	}
}

// address finds where the ranks meet.
func (env *environment) address(w *World) {
	if w.Size <= 1 || env.err != nil {
		return
	}
	port := defaultPort
	if env.set("MASTER_PORT") {
		port = env.number("MASTER_PORT")
	}
	switch {
	case env.set(EnvRendezvous):
		w.Address = env.text(EnvRendezvous)
		return
	case env.set("MASTER_ADDR"):
		if strings.EqualFold(env.text("TORCHELASTIC_USE_AGENT_STORE"), "true") {
			port++
		}
		w.Address = join(env.text("MASTER_ADDR"), port)
	case w.Launcher == "Slurm" && env.nodes() != "":
		host, err := firstHost(env.nodes())
		if err != nil {
			env.refuse([]string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}, "%v", err)
			return
		}
		if !env.set("MASTER_PORT") {
			port = jobPort(w.Job)
		}
		w.Address = join(host, port)
	case w.Table != nil:
		server, _, ok := w.Table.Device(0)
		if !ok {
			return
		}
		w.Address = join(server.host(), port)
	case w.LocalSize == w.Size:
		w.Address = join("127.0.0.1", port)
	default:
		env.refuse([]string{"MASTER_PORT"}, "nothing says where rank 0 is; set MASTER_ADDR, or %s to host:port", EnvRendezvous)
	}
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func (env *environment) nodes() string {
	if s := env.text("SLURM_STEP_NODELIST"); s != "" {
		return s
	}
	return env.text("SLURM_JOB_NODELIST")
}

// jobPort spreads jobs over 20000 to 29999, below the ports that Linux gives to clients and
// beside HCCL's own (16666, 60000 and up).
func jobPort(job string) int {
	h := fnv.New32a()
	h.Write([]byte(job))
	return 20000 + int(h.Sum32()%10000)
}

// firstHost is the first name of Slurm's compressed list, such as "gpu[03-05,9],login1".
func firstHost(list string) (string, error) {
	prefix, rest, bracket := strings.Cut(list, "[")
	if head, _, more := strings.Cut(prefix, ","); more || !bracket {
		if head == "" || strings.ContainsAny(head, "[] ") {
			return "", fmt.Errorf("%q is not a list of hosts", list)
		}
		return head, nil
	}
	numbers, rest, closed := strings.Cut(rest, "]")
	number, _, _ := strings.Cut(numbers, ",")
	number, _, _ = strings.Cut(number, "-")
	if _, err := strconv.ParseUint(number, 10, 64); err != nil || !closed {
		return "", fmt.Errorf("%q is not a list of hosts", list)
	}
	suffix, _, _ := strings.Cut(rest, ",")
	// Several dimensions, such as "rack[1-2]node[0-3]".
	if strings.Contains(suffix, "[") {
		tail, err := firstHost(rest)
		return prefix + number + tail, err
	}
	return prefix + number + suffix, nil
}
