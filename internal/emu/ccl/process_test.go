package ccl_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/testing/process"
)

func TestMain(m *testing.M) {
	if process.IsChild(newServant) {
		return
	}
	goleak.VerifyTestMain(m)
}

// servant is a rank in its own process.
type servant struct {
	*rank
	memory uint64
	before process.Footprint
}

const envApart = "CCL_TEST_APART" // gives a servant a host of its own, so that it is reached over TCP

func newServant() process.Do {
	n := newNode(&processTB{}, patient)
	if os.Getenv(envApart) != "" {
		ccl.PutOnOwnHost(n.l)
	}
	s := &servant{rank: newRank(&processTB{}, n, 0)}
	s.memory, s.before = s.available(), process.Measure()
	return func(words []string) (int, string) {
		code, text := s.do(words)
		return int(code), text
	}
}

// processTB lets helpers of tests run outside a test: a failure ends the process.
type processTB struct{ testing.TB }

func (*processTB) Helper()                   {}
func (*processTB) Cleanup(func())            {}
func (*processTB) FailNow()                  { os.Exit(3) }
func (*processTB) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f, a...) }

func (s *servant) do(words []string) (int32, string) {
	var n, me, size uint64
	switch words[0] {
	case "root":
		var info [4108]byte
		if code := s.call("HcclGetRootInfo", address(&info)); code != 0 {
			return code, s.text()
		}
		return 0, hex.EncodeToString(info[:])
	case "wait": // sets the timeouts of connecting and of collectives, in seconds
		_, _ = fmt.Sscan(words[1], &n)
		_, _ = fmt.Sscan(words[2], &size)
		ccl.SetTimeouts(s.n.l, ccl.Timeouts{Connect: time.Duration(n) * time.Second, Execute: time.Duration(size) * time.Second})
	case "join":
		b, _ := hex.DecodeString(words[3])
		_, _ = fmt.Sscan(words[1], &size)
		_, _ = fmt.Sscan(words[2], &me)
		comm := new(uint64)
		code := s.call("HcclCommInitRootInfo", size, address(&b[0]), me, address(comm))
		s.comm, s.id = *comm, int(me)
		return code, s.text()
	case "reduce": // count elements of 1; the answer is the first element
		_, _ = fmt.Sscan(words[1], &n)
		p := s.upload(ones(int(n)))
		code := s.call("HcclAllReduce", p, p, n, int32Type, sum, s.comm, s.stream)
		if code == 0 {
			code = s.sync()
		}
		text := s.text()
		if code == 0 {
			text = fmt.Sprint(s.download(p, 4)[0])
		}
		s.free(p)
		return code, text
	case "repeat": // queues collectives; with true the process kills itself meanwhile
		var times int
		var killed bool
		_, _ = fmt.Sscan(strings.Join(words[1:], " "), &times, &n, &killed)
		return s.repeat(times, n, killed)
	case "destroy":
		return s.call("HcclCommDestroy", s.comm), s.text()
	case "shared": // whether memory is shared with other ranks
		return 0, fmt.Sprint(process.Measure().Shared > s.before.Shared)
	case "check":
		return 0, s.leaks()
	default:
		return -1, "unknown command"
	}
	return 0, ""
}

func (s *servant) repeat(times int, n uint64, killed bool) (int32, string) {
	p, event := s.upload(ones(int(n))), new(uint64)
	s.must("aclrtCreateEvent", address(event))
	code := int32(0)
	for i := 0; i < times && code == 0; i++ {
		code = s.call("HcclAllReduce", p, p, n, int32Type, sum, s.comm, s.stream)
		if i == 0 {
			s.must("aclrtRecordEvent", *event, s.stream)
		}
	}
	if killed {
		s.must("aclrtSynchronizeEvent", *event)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if synced := s.sync(); code == 0 {
		code = synced
	}
	text := s.text()
	s.must("aclrtDestroyEvent", *event)
	s.free(p)
	return code, text
}

func ones(n int) []byte { return words(n, func(int) int32 { return 1 }) }

// leaks waits for resources to be released and describes those that remain.
func (s *servant) leaks() string {
	return s.before.Settle(watchdog, func() (left []string) {
		if comms, roots := s.n.l.Live(); comms+roots > 0 {
			left = append(left, fmt.Sprintf("%d communicators and %d roots", comms, roots))
		}
		if free := s.available(); free != s.memory {
			left = append(left, fmt.Sprintf("%d bytes of device memory", s.memory-free))
		}
		return left
	})
}

// joinChildren makes a communicator of all children.
func joinChildren(t *testing.T, all []*process.Child) {
	info := all[0].Must("root")
	for i, p := range all {
		p.Send("join %d %d %s", len(all), i, info)
	}
	for _, p := range all {
		code, text := p.Receive()
		require.Zero(t, code, text)
	}
}

func reduce(t *testing.T, all []*process.Child, count int) {
	for _, text := range process.All(all, "reduce %d", count) {
		require.Equal(t, fmt.Sprint(len(all)), text)
	}
}

// hurried makes ranks notice that another one is missing within seconds.
func hurried(all []*process.Child) { process.All(all, "wait 3 2") }

// fault is an event that hits the last of three ranks, and the errors that the others must get. Only where a rank
// is silent do they need a timeout.
type fault struct {
	name    string
	happens func(t *testing.T, all []*process.Child) // starts a call on the survivors that fails
	codes   []int
	texts   []string // the error must contain one of them
}

const large = 4 << 20 // elements

// Codes of failed collectives: of the stream, or of the call if another rank failed before it.
const (
	lostPeer  = 507057
	outOfTime = 507048
	exception = 507049
	remote    = 21
)

var faults = []fault{
	{"killed before joining", func(t *testing.T, all []*process.Child) {
		hurried(all)
		info := all[0].Must("root")
		all[2].Kill()
		for i, p := range all[:2] {
			p.Send("join 3 %d %s", i, info)
		}
	}, []int{9, 4}, []string{"EI0015"}},
	{"killed after joining the root", func(t *testing.T, all []*process.Child) {
		hurried(all)
		info := all[0].Must("root")
		all[2].Send("join 3 2 %s", info)
		all[2].Kill() // wherever it is
		for i, p := range all[:2] {
			p.Send("join 3 %d %s", i, info)
		}
	}, []int{9, 4}, []string{"EI0015", "EI0006"}},
	{"killed while others wait", func(t *testing.T, all []*process.Child) {
		joinChildren(t, all)
		for _, p := range all[:2] {
			p.Send("reduce %d", large)
		}
		all[2].Kill()
	}, []int{lostPeer, remote}, []string{"EI0006"}},
	{"killed in a collective", func(t *testing.T, all []*process.Child) {
		joinChildren(t, all)
		for i, p := range all {
			p.Send("repeat 50 %d %v", large, i == 2)
		}
	}, []int{lostPeer, remote}, []string{"EI0006"}},
	{"killed between collectives", func(t *testing.T, all []*process.Child) {
		joinChildren(t, all)
		reduce(t, all, 1000)
		all[2].Kill()
		for _, p := range all[:2] {
			p.Send("reduce 1000")
		}
	}, []int{lostPeer, remote}, []string{"EI0006"}},
	{"stalled", func(t *testing.T, all []*process.Child) {
		joinChildren(t, all)
		hurried(all)
		all[2].Signal(syscall.SIGSTOP)
		for _, p := range all[:2] {
			p.Send("reduce %d", large)
		}
	}, []int{outOfTime, lostPeer, remote}, []string{"EI0002"}},
	{"stalled while joining", func(t *testing.T, all []*process.Child) {
		hurried(all)
		info := all[0].Must("root")
		all[2].Signal(syscall.SIGSTOP)
		for i, p := range all {
			p.Send("join 3 %d %s", i, info)
		}
	}, []int{9, 4}, []string{"EI0015"}}, // 4 when the root's answer comes late on a busy machine
	{"wrong world size", func(t *testing.T, all []*process.Child) {
		info := all[0].Must("root")
		for i, p := range all {
			p.Send("join %d %d %s", 3+i/2, i, info)
		}
	}, []int{4}, []string{"EI0014", "EI0015"}},
	{"rank twice", func(t *testing.T, all []*process.Child) {
		info := all[0].Must("root")
		for i, p := range all {
			p.Send("join 3 %d %s", i/2, info)
		}
	}, []int{4}, []string{"EI0014", "EI0015"}},
}

// TestFaults checks that after a fault of one of three ranks each survivor gets an error that
// describes its cause, leaks nothing, and can use a new communicator. The ranks are
// processes, on one host and on several.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	for connection, environment := range map[string][]string{"one host": nil, "several hosts": {envApart + "=1"}} {
		for _, f := range faults {
			t.Run(connection+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				all := process.Start(t, 3, environment...)
				survivors := all[:2]
				f.happens(t, all)
				for i, p := range survivors {
					code, text := p.Receive()
					require.Contains(t, f.codes, code, "rank %d: %s", i, text)
					require.True(t, slices.ContainsFunc(f.texts, func(s string) bool { return strings.Contains(text, s) }), "rank %d: %d %s", i, code, text)
				}
				process.All(survivors, "wait %d %d", int(patient.Connect.Seconds()), int(patient.Execute.Seconds()))
				for range 2 { // after the fault, and in a new communicator
					requireNothingLeft(t, survivors)
					joinChildren(t, survivors)
					reduce(t, survivors, 100000)
				}
				requireNothingLeft(t, survivors)
			})
		}
	}
}

func requireNothingLeft(t *testing.T, all []*process.Child) {
	for _, p := range all {
		p.Send("destroy")
		_, _ = p.Receive() // there is no communicator if joining failed
		require.Empty(t, p.Must("check"))
	}
}

// TestStranger checks that an unauthenticated client at the root's port is ignored, does not delay
// the ranks, and is disconnected soon.
func TestStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("processes, and the time that a stranger has to introduce itself")
	}
	all := process.Start(t, 2)
	info := all[0].Must("root")
	b, err := hex.DecodeString(info)
	require.NoError(t, err)
	address, _, _ := strings.Cut(string(b[72:]), "\x00")
	for _, noise := range []string{"", "GET / HTTP/1.0\r\n\r\n", strings.Repeat("x", 1<<20)} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, noise) // the root may have closed already
	}
	for i, p := range all {
		p.Send("join 2 %d %s", i, info)
	}
	for _, p := range all {
		code, text := p.Receive()
		require.Zero(t, code, text)
	}
	reduce(t, all, 1000)
	requireNothingLeft(t, all)
}

// TestSharing checks that processes of one host share memory, that those of different hosts do
// not, and that the results are the same.
func TestSharing(t *testing.T) {
	for shared, environment := range map[string][]string{"true": nil, "false": {envApart + "=1"}} {
		all := process.Start(t, 2, environment...)
		joinChildren(t, all)
		for _, count := range []int{1, 1000, large} {
			reduce(t, all, count)
		}
		require.Equal(t, []string{shared, shared}, process.All(all, "shared"))
		requireNothingLeft(t, all)
	}
}
