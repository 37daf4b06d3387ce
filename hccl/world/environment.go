package world

import (
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Variables of this package. They take precedence over those of launchers.
const (
	// EnvRendezvous holds the host:port where rank 0 listens.
	EnvRendezvous = "CANN_RENDEZVOUS"
	// EnvSecret holds the job's secret, see Place.Secret.
	EnvSecret = "CANN_JOB_SECRET"
	// EnvOpen lets a job without a secret use an address that other hosts can reach, if it is 1, see
	// Place.Open.
	EnvOpen = "CANN_JOB_OPEN"
)

const defaultPort = 29500 // the default port of torchrun

// launcher names the variables of one way to start ranks.
type launcher struct {
	name                             string
	rank, size, localRank, localSize string // localSize may be empty
	job                              []string
	step                             string // set for ranks only, where others have the variables too; may be empty
	remedy                           string
}

// launchers is in order of preference: mpirun and torchrun often run inside a Slurm job, whose
// variables then do not describe the ranks.
var launchers = []launcher{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", []string{"TORCHELASTIC_RUN_ID"}, "",
		"start the program by torchrun or by examples/launch, which set all of them"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", []string{"PMIX_NAMESPACE"}, "",
		"start the program by mpirun"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", []string{"SLURM_JOB_ID", "SLURM_STEP_ID"}, "SLURM_STEP_ID",
		"start the program by srun"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nil, "",
		"start the program by mpiexec"},
}

// environment reads variables and keeps the first fault.
type environment struct {
	lookup   func(string) (string, bool)
	launcher string
	err      error
}

// DetectFrom reads the variables of torchrun, Open MPI, Slurm, MPICH, or a rank table with RANK_ID,
// in this order. The first of these with any variable set must be complete. lookup is os.LookupEnv
// or a substitute.
//
// The rendezvous is at CANN_RENDEZVOUS if it is set; else at MASTER_ADDR:MASTER_PORT (one port higher
// when torchrun's agent keeps that port for its own store); else on the first host of the Slurm
// step; else on the host of rank 0 in the rank table; else, when all ranks are on this host, at
// 127.0.0.1. Without MASTER_PORT the port is 29500; under Slurm, and Open MPI on one host, it is derived from
// the job's number, so that several jobs can run on one host.
//
// Without any variable the error is ErrNoLauncher, see Alone.
func DetectFrom(lookup func(string) (string, bool)) (Place, error) {
	if lookup == nil {
		return Place{}, &EnvError{Err: ErrEnvironment, Detail: "lookup is nil; pass os.LookupEnv"}
	}
	env := &environment{lookup: lookup}
	var p Place
	if l, ok := env.launched(); ok {
		p = env.fromLauncher(l)
	} else if env.set("RANK_ID") {
		p = env.fromTable()
	} else if node, ok := env.set("MS_NODE_RANK"), env.set("CM_RANK"); node || ok {
		env.launcher = "ascend-operator"
		env.refuse([]string{"MS_NODE_RANK", "CM_RANK"}, "they describe a pod, not a rank; start the program by examples/launch, which starts one rank per device")
	} else {
		return Place{}, &EnvError{Err: ErrNoLauncher, Detail: "start the program by torchrun, mpirun, srun or examples/launch, or use world.Alone"}
	}
	p.Secret = env.text(EnvSecret)
	switch open := env.text(EnvOpen); open {
	case "", "0":
	case "1":
		p.Open = true
	default:
		env.refuse([]string{EnvOpen}, "%q; set it to 1, or to 0", open)
	}
	if env.err == nil && p.Table == nil && env.text("RANK_TABLE_FILE") != "" {
		p.Table, env.err = ReadRankTable(env.text("RANK_TABLE_FILE"))
	}
	env.device(&p)
	env.address(&p)
	if env.err != nil {
		return Place{}, env.err
	}
	if err := p.Check(); err != nil {
		return Place{}, &EnvError{Launcher: p.Launcher, Detail: err.Error(), Err: ErrEnvironment}
	}
	return p, nil
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

// number returns a count, which must be set.
func (env *environment) number(name string) int {
	s := env.text(name)
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		env.refuse([]string{name}, "%q is not a count", s)
	}
	return int(n)
}

// launched returns the first launcher that has set one of its rank variables.
func (env *environment) launched() (launcher, bool) {
	i := slices.IndexFunc(launchers, func(l launcher) bool {
		return env.set(l.rank) || env.set(l.localRank)
	})
	if i < 0 {
		// A size without ranks occurs in the shell of an allocation, or when an export was
		// forgotten.
		i = slices.IndexFunc(launchers, func(l launcher) bool { return env.set(l.size) })
	}
	if i < 0 {
		return launcher{}, false
	}
	return launchers[i], true
}

func (env *environment) fromLauncher(l launcher) Place {
	env.launcher = l.name
	var missing []string
	for _, name := range []string{l.rank, l.size, l.localRank} {
		if !env.set(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		env.refuse([]string{l.rank, l.size, l.localRank, l.localSize}, "without %s; %s", strings.Join(missing, " and "), l.remedy)
		return Place{}
	}
	if strings.Contains(env.text(l.localRank), ",") {
		env.refuse([]string{l.localRank}, "%q lists the devices of a pod, as the ascend-operator does; start the program by examples/launch, which starts one rank per device", env.text(l.localRank))
		return Place{}
	}
	if l.step != "" && !env.set(l.step) && env.text(l.size) != "1" {
		env.refuse([]string{l.rank, l.size}, "without %s they describe the batch script, which is no rank; %s", l.step, l.remedy)
		return Place{}
	}
	p := Place{
		Launcher: l.name,
		Rank:     env.number(l.rank), Size: env.number(l.size), LocalRank: env.number(l.localRank),
	}
	if env.set(l.localSize) {
		p.LocalSize = env.number(l.localSize)
	}
	var job []string
	for _, name := range l.job {
		if env.set(name) {
			job = append(job, env.text(name))
		}
	}
	p.Job = strings.Join(job, ".")
	return p
}

// fromTable reads the variables of programs that are started with a rank table.
func (env *environment) fromTable() Place {
	env.launcher = "rank table"
	p := Place{Launcher: env.launcher, Rank: env.number("RANK_ID")}
	if !env.set("RANK_TABLE_FILE") {
		env.refuse([]string{"RANK_ID", "RANK_SIZE"}, "without RANK_TABLE_FILE; name the rank table, or use a launcher")
	}
	if env.err != nil {
		return p
	}
	if p.Table, env.err = ReadRankTable(env.text("RANK_TABLE_FILE")); env.err != nil {
		return p
	}
	p.Size = p.Table.Size()
	if env.set("RANK_SIZE") && env.number("RANK_SIZE") != p.Size {
		env.refuse([]string{"RANK_SIZE", "RANK_TABLE_FILE"}, "RANK_SIZE is %s, the table lists %d ranks", env.text("RANK_SIZE"), p.Size)
	}
	server, _, ok := p.Table.Device(p.Rank)
	if !ok {
		env.refuse([]string{"RANK_ID", "RANK_TABLE_FILE"}, "RANK_ID is %d, the table lists ranks 0 to %d", p.Rank, p.Size-1)
		return p
	}
	p.LocalRank = p.Rank - server.Devices[0].Rank
	p.LocalSize = len(server.Devices)
	return p
}

// device determines the logical device: ASCEND_RT_VISIBLE_DEVICES renumbers the physical ones.
func (env *environment) device(p *Place) {
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
	if p.Table != nil && p.Table.Size() == p.Size {
		_, d, ok := p.Table.Device(p.Rank)
		if !ok {
			return // Check reports what is wrong with the rank
		}
		p.Device = d.ID
		if visible == nil {
			return
		}
		if p.Device = slices.Index(visible, d.ID); p.Device < 0 {
			env.refuse([]string{"ASCEND_RT_VISIBLE_DEVICES", "RANK_TABLE_FILE"}, "the table gives rank %d device %d, which is not visible", p.Rank, d.ID)
		}
		return
	}
	p.Device = p.LocalRank
	switch {
	case len(visible) == 1:
		p.Device = 0 // each rank was given its own device
	case visible != nil && p.LocalRank >= len(visible):
		env.refuse([]string{"ASCEND_RT_VISIBLE_DEVICES"}, "local rank %d finds only %d devices", p.LocalRank, len(visible))
	}
}

// address determines the address of the rendezvous.
func (env *environment) address(p *Place) {
	if p.Size <= 1 || env.err != nil {
		return
	}
	port := env.port(defaultPort)
	switch {
	case env.set(EnvRendezvous):
		p.Address = env.text(EnvRendezvous)
		return
	case env.set("MASTER_ADDR"):
		if strings.EqualFold(env.text("TORCHELASTIC_USE_AGENT_STORE"), "true") {
			port++
		}
		p.Address = hostPort(env.text("MASTER_ADDR"), port)
	case p.Launcher == "Slurm" && env.nodes() != "":
		host, err := firstHost(env.nodes())
		if err != nil {
			env.refuse([]string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}, "%v", err)
			return
		}
		p.Address = hostPort(host, env.ownPort(p.Job))
	case p.Table != nil:
		server, _, ok := p.Table.Device(0)
		if !ok {
			return
		}
		p.Address = hostPort(server.host(), port)
	case p.LocalSize == p.Size:
		p.Address = hostPort("127.0.0.1", env.ownPort(p.Job))
	default:
		env.refuse([]string{"MASTER_PORT"}, "no variable has the address of rank 0; set MASTER_ADDR, or %s to host:port", EnvRendezvous)
	}
}

// port returns MASTER_PORT, or another if it is not set.
func (env *environment) port(other int) int {
	if env.set("MASTER_PORT") {
		return env.number("MASTER_PORT")
	}
	return other
}

// ownPort returns MASTER_PORT, or else a port of the job's own if the launcher has named the job.
func (env *environment) ownPort(job string) int {
	if job == "" {
		return env.port(defaultPort)
	}
	return env.port(jobPort(job))
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func (env *environment) nodes() string {
	if s := env.text("SLURM_STEP_NODELIST"); s != "" {
		return s
	}
	return env.text("SLURM_JOB_NODELIST")
}

// jobPort distributes jobs over ports 20000 to 29999, below the ephemeral ports of Linux and apart
// from HCCL's own (16666, 60000 and up).
func jobPort(job string) int {
	h := fnv.New32a()
	h.Write([]byte(job))
	return 20000 + int(h.Sum32()%10000)
}

// firstHost returns the first name of Slurm's compressed list, such as "gpu[03-05,9],login1".
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
	// The list has several dimensions, such as "row[1-2]node[0-3]".
	if strings.Contains(suffix, "[") {
		tail, err := firstHost(rest)
		return prefix + number + tail, err
	}
	return prefix + number + suffix, nil
}
