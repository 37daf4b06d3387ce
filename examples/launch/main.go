package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	random "math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

// options are the flags.
type options struct {
	perNode, nodes, node int
	master               string
	grace, settle        time.Duration
	restarts             int
	pause                time.Duration // before the first restart
	watchdog             time.Duration
	flight               string
	command              []string
}

const (
	synopsis = "launch -n ranks [flags] -- program [arguments]"
	about    = `launch starts the ranks of a job on this host: one process per device, with the variables that
torchrun sets. When a rank fails, the others get some time to report their errors before they are ended; its
status becomes that of launch.`
)

var samples = []string{
	"go run ./examples/launch -n 8 -- ./trainstep -tp 2",
	"go run ./examples/launch -n 8 -restarts 3 -- ./trainstep -save run -save-every 100 -auto-resume",
	"go run ./examples/launch -n 8 -nodes 2 -node 0 -master 10.0.0.5:29500 -- ./trainstep",
	"go run ./examples/launch -- ./trainstep",
}

var errUsage = errors.New("usage: " + synopsis)

// parseFlags reads the flags; in a pod, the operator's variables replace missing flags.
func parseFlags(args []string, lookup func(string) (string, bool), out io.Writer) (options, error) {
	o := options{pause: time.Second}
	f := command.New(out, synopsis, about, samples...)
	f.Operands = true
	f.Group("One host")
	f.IntVar(&o.perNode, "n", 0, "`ranks` on this host (default: those of the ascend-operator's pod)")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "how long the other ranks may take to end with errors of their own after one has failed")
	f.DurationVar(&o.grace, "grace", 30*time.Second, "how long ranks may take to end after SIGTERM, before they are killed")
	f.IntVar(&o.restarts, "restarts", 0, "`times` to start all ranks again after one has failed, as for trainstep -save DIR -auto-resume, which goes on from the last checkpoint; on several hosts each launch needs it. The pause before is a second, and doubles up to a minute")
	f.DurationVar(&o.watchdog, "watchdog", 10*time.Minute, "default of the ranks' -watchdog: ranks end within this time of the last answer of one of them; 0 waits for ever")
	f.StringVar(&o.flight, "flight", "", "`folder` for the ranks' flight records (default: a temporary folder, which is kept if it has records)")
	f.Group("Several hosts")
	f.IntVar(&o.nodes, "nodes", 1, "number of hosts of the job, each with -n ranks")
	f.IntVar(&o.node, "node", 0, "`number` of this host, from 0")
	f.StringVar(&o.master, "master", "", "`host:port` where rank 0 listens; needed for several hosts (default: a free port of the loopback)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.command = f.Args(); len(o.command) == 0 {
		return o, errUsage
	}
	if o.perNode == 0 {
		pod, err := world.NodeFrom(lookup)
		if errors.Is(err, world.ErrNoLauncher) {
			return o, errUsage
		} else if err != nil {
			return o, err
		}
		o.perNode, o.nodes, o.node = pod.Local, pod.Count, pod.Rank
		if o.master == "" {
			o.master = pod.Address
		}
	}
	switch {
	case o.restarts < 0:
		return o, errors.New("-restarts must not be negative")
	case o.perNode < 1 || o.nodes < 1:
		return o, errors.New("-n and -nodes must be positive")
	case o.node < 0 || o.node >= o.nodes:
		return o, fmt.Errorf("-node %d is not one of %d hosts; they are numbered from 0", o.node, o.nodes)
	case o.master == "" && o.nodes > 1:
		return o, errors.New("-master is needed when there are several hosts")
	case o.master == "":
		return o, nil
	}
	host, port, err := net.SplitHostPort(o.master)
	if err != nil {
		return o, fmt.Errorf("-master: %w", err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return o, fmt.Errorf("-master %s: all ranks dial it, so it needs a host and a port from 1 to 65535", o.master)
	}
	return o, nil
}

// freePort finds a loopback port on which no process listens, outside the ephemeral range if it can:
// connections may take any port of that range before rank 0 does, which then reports an error.
func freePort() (string, error) {
	var ln net.Listener
	err := errors.New("no port was tried")
	for try := 0; err != nil && try < 100; try++ {
		ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+random.IntN(10000))))
	}
	if err != nil {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// variables returns the environment variables that all ranks of this host share.
func (o options) variables(lookup func(string) (string, bool)) ([]string, error) {
	master := o.master
	if master == "" {
		var err error
		if master, err = freePort(); err != nil {
			return nil, err
		}
	}
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return nil, err
	}
	vars := []string{
		"WORLD_SIZE=" + strconv.Itoa(o.nodes*o.perNode), "LOCAL_WORLD_SIZE=" + strconv.Itoa(o.perNode),
		"GROUP_RANK=" + strconv.Itoa(o.node), "MASTER_ADDR=" + host, "MASTER_PORT=" + port,
		// A launcher around this one may set these, which would send the ranks to another port.
		"TORCHELASTIC_USE_AGENT_STORE=", world.EnvRendezvous + "=",
	}
	if s, _ := lookup(job.EnvWatchdog); s == "" {
		vars = append(vars, job.EnvWatchdog+"="+o.watchdog.String())
	}
	if s, _ := lookup(world.EnvSecret); s == "" && o.nodes == 1 {
		vars = append(vars, world.EnvSecret+"="+rand.Text())
	}
	return vars, nil
}

func main() {
	o, err := parseFlags(os.Args[1:], os.LookupEnv, os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(2)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	status, err := run(o, os.LookupEnv, signals, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
	}
	os.Exit(status)
}
