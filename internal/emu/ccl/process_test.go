package ccl_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/ccl"
)

// envRank makes the test's program be a rank that does what its standard input says.
const envRank = "CCL_TEST_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(envRank) != "" {
		serveRank(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// servant is a rank in a process of its own.
type servant struct {
	*rank
	memory   uint64
	files    int
	routines int
}

// serveRank answers each line of commands with a line: a code and a text.
func serveRank(in io.Reader, out io.Writer) {
	limits := ccl.Timeouts{Connect: 3 * time.Second, Execute: 2 * time.Second}
	s := &servant{}
	n := newNode(&processTB{}, limits)
	s.rank = newRank(&processTB{}, n, 0)
	s.memory, s.files, s.routines = s.free(), openFiles(), runtime.NumGoroutine()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		code, text := s.do(strings.Fields(lines.Text()))
		_, _ = fmt.Fprintf(out, "%d %s\n", code, strings.ReplaceAll(text, "\n", " "))
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
		if free := s.call("aclrtFree", p); free != 0 {
			return free, "aclrtFree: " + s.text()
		}
		return code, text
	case "destroy":
		return s.call("HcclCommDestroy", s.comm), s.text()
	case "check":
		return 0, s.leaks()
	}
	return -1, "unknown command"
}

func ones(n int) []byte { return words(n, func(int) int32 { return 1 }) }

func (s *servant) free() uint64 {
	free, total := new(uint64), new(uint64)
	s.must("aclrtGetMemInfo", 1, address(free), address(total))
	return *free
}

func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// leaks waits a moment for what ends by itself and describes what is left.
func (s *servant) leaks() string {
	var left []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		left = nil
		if comms, roots := s.n.l.Live(); comms+roots > 0 {
			left = append(left, fmt.Sprintf("%d communicators and %d roots", comms, roots))
		}
		if free := s.free(); free != s.memory {
			left = append(left, fmt.Sprintf("%d bytes of device memory", s.memory-free))
		}
		if n := openFiles(); n > s.files {
			left = append(left, fmt.Sprintf("%d files", n-s.files))
		}
		if n := runtime.NumGoroutine(); n > s.routines {
			left = append(left, fmt.Sprintf("%d goroutines", n-s.routines))
		}
		if len(left) == 0 {
			return ""
		}
	}
	return strings.Join(left, ", ")
}

// puppet is a servant as the test sees it.
type puppet struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPuppets(t *testing.T, n int) []*puppet {
	all := make([]*puppet, n)
	for i := range all {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envRank+"=1")
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		require.NoError(t, err)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		p := &puppet{t, c, in, bufio.NewReaderSize(out, 1<<20)}
		t.Cleanup(func() {
			_ = in.Close()
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		})
		all[i] = p
	}
	return all
}

func (p *puppet) tell(format string, a ...any) {
	_, err := fmt.Fprintf(p.in, format+"\n", a...)
	require.NoError(p.t, err)
}

func (p *puppet) hear() (code int, text string) {
	line, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	number, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	_, err = fmt.Sscan(number, &code)
	require.NoError(p.t, err)
	return code, text
}

func (p *puppet) signal(s syscall.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

// meet lets puppets join a communicator of their number.
func meet(t *testing.T, all []*puppet) {
	info := root(all[0])
	for i, p := range all {
		p.tell("join %d %d %s", len(all), i, info)
	}
	for _, p := range all {
		code, text := p.hear()
		require.Zero(t, code, text)
	}
}

func root(p *puppet) string {
	p.tell("root")
	code, info := p.hear()
	require.Zero(p.t, code, info)
	return info
}

func reduce(t *testing.T, all []*puppet, count int) {
	for _, p := range all {
		p.tell("reduce %d", count)
	}
	for _, p := range all {
		code, text := p.hear()
		require.Zero(t, code, text)
		require.Equal(t, fmt.Sprint(len(all)), text)
	}
}

// TestFaults: whatever happens to one of three ranks, each survivor gets an error that says so
// within the deadline, leaks nothing, and can work in a new communicator.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	const large = 16 << 20
	failing := func(parts ...string) func(t *testing.T, survivors []*puppet) {
		return func(t *testing.T, survivors []*puppet) {
			for i, p := range survivors {
				code, text := p.hear()
				require.NotZero(t, code, "rank %d", i)
				found := false
				for _, part := range parts {
					found = found || strings.Contains(text, part)
				}
				require.True(t, found, "rank %d: %d %s", i, code, text)
			}
		}
	}
	for _, c := range []struct {
		name    string
		happens func(t *testing.T, all []*puppet) // survivors have been told something that fails
		answers func(t *testing.T, survivors []*puppet)
	}{
		{"killed before joining", func(t *testing.T, all []*puppet) {
			info := root(all[0])
			all[2].signal(syscall.SIGKILL)
			for i, p := range all[:2] {
				p.tell("join 3 %d %s", i, info)
			}
		}, failing("ranks 2 of 3")},
		{"killed while others wait", func(t *testing.T, all []*puppet) {
			meet(t, all)
			for _, p := range all[:2] {
				p.tell("reduce %d", large)
			}
			all[2].signal(syscall.SIGKILL)
		}, failing("EI0006")},
		{"killed in a collective", func(t *testing.T, all []*puppet) {
			meet(t, all)
			for _, p := range all {
				p.tell("reduce %d", large)
			}
			all[2].signal(syscall.SIGKILL)
		}, failing("EI0006")},
		{"killed between collectives", func(t *testing.T, all []*puppet) {
			meet(t, all)
			reduce(t, all, 1000)
			all[2].signal(syscall.SIGKILL)
			_ = all[2].cmd.Wait()
			for _, p := range all[:2] {
				p.tell("reduce 1000")
			}
		}, failing("EI0006")},
		{"stalled", func(t *testing.T, all []*puppet) {
			meet(t, all)
			all[2].signal(syscall.SIGSTOP)
			for _, p := range all[:2] {
				p.tell("reduce %d", large)
			}
		}, failing("EI0002")},
		{"wrong world size", func(t *testing.T, all []*puppet) {
			info := root(all[0])
			for i, p := range all {
				p.tell("join %d %d %s", 3+i/2, i, info)
			}
		}, failing("EI0014", "EI0015")},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := startPuppets(t, 3)
			survivors := all[:2]
			c.happens(t, all)
			began := time.Now()
			c.answers(t, survivors)
			require.Less(t, time.Since(began), 10*time.Second)
			for range 2 { // after the fault, and in a new communicator
				for _, p := range survivors {
					p.tell("destroy")
					_, _ = p.hear() // there is none when joining failed
					p.tell("check")
					_, left := p.hear()
					require.Empty(t, left)
				}
				meet(t, survivors)
				reduce(t, survivors, 100000)
			}
		})
	}
}

// A stranger at the root's port is not heard, and holds nobody up.
func TestStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("processes")
	}
	all := startPuppets(t, 2)
	info := root(all[0])
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
		p.tell("join 2 %d %s", i, info)
	}
	for _, p := range all {
		code, text := p.hear()
		require.Zero(t, code, text)
	}
	reduce(t, all, 1000)
}
