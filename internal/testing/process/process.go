package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Child is a process that obeys the test's commands.
type Child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts n children with variables added to the test's environment. They are killed when
// the test ends.
func Start(t testing.TB, n int, environment ...string) []*Child {
	t.Helper()
	all := make([]*Child, n)
	for i := range all {
		all[i] = start(t, nil, environment...)
	}
	return all
}

func start(t testing.TB, attributes *syscall.SysProcAttr, environment ...string) *Child {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program)
	c.Env = append(append(os.Environ(), variable+"=1"), environment...)
	c.Stderr = os.Stderr
	c.SysProcAttr = attributes
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	p := &Child{t, c, in, bufio.NewReaderSize(out, longest)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	return p
}

// Send sends a command without waiting for its answer.
func (p *Child) Send(format string, a ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.in, format+"\n", a...)
	require.NoError(p.t, err)
}

// Receive waits for the next answer: answers come in the order of the commands.
func (p *Child) Receive() (code int, text string) {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p.t, err, "the child process has ended")
	number, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	_, err = fmt.Sscan(number, &code)
	require.NoError(p.t, err, line)
	return code, text
}

// Must sends a command and requires code 0; it returns the text.
func (p *Child) Must(format string, a ...any) string {
	p.t.Helper()
	p.Send(format, a...)
	code, text := p.Receive()
	require.Zero(p.t, code, text)
	return text
}

// Signal sends a signal.
func (p *Child) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// Kill ends the process and waits until it is gone.
func (p *Child) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // it says that it was killed
}

// All sends one command to all children, requires code 0 of each, and returns their texts.
func All(all []*Child, format string, a ...any) []string {
	for _, p := range all {
		p.t.Helper()
		p.Send(format, a...)
	}
	texts := make([]string, len(all))
	for i, p := range all {
		code, text := p.Receive()
		require.Zero(p.t, code, text)
		texts[i] = text
	}
	return texts
}
