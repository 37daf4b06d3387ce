//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// inNetwork is set in a process that has a network of its own.
const inNetwork = "CANN_TEST_NETWORK"

// OnNetwork runs the rest of a test in another process with an empty network of its own, in
// which Hosts can be made. It must be the first call of a test of the top level. Where the
// machine does not allow this, the test is skipped with the reason.
func OnNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inNetwork) != "" {
		plug(t)
		test(t)
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), inNetwork+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		t.Fatalf("%v\n%s", err, out)
	case err != nil:
		t.Skipf("this machine does not let a test make namespaces: %v", err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
}

const bridge = "switch"

// plug makes the switch that connects the hosts.
func plug(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("networks are made with iproute2: %v", err)
	}
	for _, line := range []string{"link add " + bridge + " type bridge", "link set " + bridge + " up", "link set lo up"} {
		if err := ip(line); err != nil {
			t.Skipf("this machine does not let a test make networks: %v", err)
		}
	}
}

func ip(line string) error { return succeed("ip", strings.Fields(line)...) }

func succeed(name string, arguments ...string) error {
	if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, out)
	}
	return nil
}

// Host is a child process with a network and a process namespace of its own. It shares neither memory
// nor ports with the others and reaches them over a cable to the switch.
type Host struct {
	*Child
	Address string
	cable   string
}

// Hosts makes n hosts inside OnNetwork. The function environment returns the variables that a
// host with that address has besides the test's.
func Hosts(t *testing.T, n int, environment func(address string) []string) []*Host {
	t.Helper()
	all := make([]*Host, n)
	for i := range all {
		h := &Host{Address: fmt.Sprintf("10.77.0.%d", i+1), cable: fmt.Sprintf("cable%d", i)}
		h.Child = start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}, environment(h.Address)...)
		pid := strconv.Itoa(h.cmd.Process.Pid)
		require.NoError(t, ip("link add "+h.cable+" master "+bridge+" up type veth peer name eth0 netns "+pid))
		for _, line := range []string{"link set lo up", "addr add " + h.Address + "/24 dev eth0", "link set eth0 up"} {
			require.NoError(t, succeed("nsenter", append([]string{"-t", pid, "-n", "ip"}, strings.Fields(line)...)...))
		}
		t.Cleanup(func() { _ = ip("link del " + h.cable) }) // it goes with the host otherwise
		all[i] = h
	}
	return all
}

// Unplug disconnects the host: what it sends or is sent is lost without an error.
func (h *Host) Unplug() {
	h.t.Helper()
	require.NoError(h.t, ip("link set "+h.cable+" down"))
}
