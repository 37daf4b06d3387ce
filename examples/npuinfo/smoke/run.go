package smoke

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/ops"
)

// Config says how to try.
type Config struct {
	// Golden is the folder of the reference data; GoldenFolder finds it.
	Golden string
	// Spawn makes the command of a process that calls Part for a part, with these steps left out.
	// Nil runs the parts in this process, which a crash or a kernel that hangs ends.
	Spawn func(ctx context.Context, part string, skip []string) *exec.Cmd
	// Limit bounds a step and the wait for ranks; 0 is a minute.
	Limit time.Duration
	// Only keeps the parts whose names begin so; "" keeps all.
	Only string
	// Skip are the names of steps that are left out.
	Skip []string
	// Progress gets a line per part; nil for none.
	Progress io.Writer
}

func (c *Config) limit() time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return time.Minute
}

func (c *Config) skips(step string) bool { return slices.Contains(c.Skip, step) }

// Myself returns a Spawn that starts this program again. The flag names the part, and flag+"-skip"
// the steps to leave out, one per line.
func Myself(flag string) func(ctx context.Context, part string, skip []string) *exec.Cmd {
	return func(ctx context.Context, part string, skip []string) *exec.Cmd {
		program, err := os.Executable()
		if err != nil {
			program = os.Args[0]
		}
		c := exec.CommandContext(ctx, program, flag, part, flag+"-skip", strings.Join(skip, "\n"))
		c.WaitDelay = 5 * time.Second
		return c
	}
}

// Run tries all parts. It fails in no way but in its report.
func Run(ctx context.Context, cfg Config) *Report {
	r := new(Report)
	names, err := parts(&cfg)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, cfg.Only) })
	if len(names) == 0 && err == nil {
		r.Problems = append(r.Problems, fmt.Sprintf("no part begins with %q", cfg.Only))
	}
	for _, name := range names {
		begin := time.Now()
		r.part(ctx, cfg, name)
		if cfg.Progress != nil {
			fmt.Fprintf(cfg.Progress, "%-28s %v\n", name, time.Since(begin).Round(time.Millisecond)) // its loss matters to nobody
		}
	}
	if cfg.Only == "" {
		r.Untried = untried(r.Results)
	}
	return r
}

// part tries a part, again without the step that ended its process or broke its device.
func (r *Report) part(ctx context.Context, cfg Config, name string) {
	for {
		a := attemptOf(ctx, cfg, name)
		switch {
		case a.culprit == nil || cfg.skips(a.culprit.Name()):
			r.Results = append(r.Results, a.results...)
			r.Measures = append(r.Measures, a.measures...)
			for _, p := range a.problems {
				r.Problems = append(r.Problems, name+": "+p)
			}
			return
		case ctx.Err() != nil:
			r.Problems = append(r.Problems, name+": "+ctx.Err().Error())
			return
		}
		r.Results = append(r.Results, *a.culprit)
		cfg.Skip = append(slices.Clip(cfg.Skip), a.culprit.Name())
	}
}

// outcome collects the messages of a part.
type outcome struct {
	results  []Result
	measures []Measure
	problems []string
	culprit  *Result // of the step after which the part could not go on
}

// attemptOf runs a part once.
func attemptOf(ctx context.Context, cfg Config, name string) (a outcome) {
	var trying *Step
	done := false
	ended := start(ctx, cfg, name, func(m message) {
		switch {
		case m.Trying != nil:
			trying = m.Trying
		case m.Result != nil && (m.Result.Verdict == Failed || m.Result.Verdict == Hung):
			a.culprit = m.Result
		case m.Result != nil:
			a.results = append(a.results, *m.Result)
		case m.Measure != nil:
			a.measures = append(a.measures, *m.Measure)
		case m.Problem != "":
			a.problems = append(a.problems, m.Problem)
		}
		if m.Result != nil {
			trying = nil
		}
		done = done || m.Done
	})
	switch {
	case done || a.culprit != nil:
	case trying != nil:
		a.culprit = &Result{Step: *trying, Verdict: Crashed, Reason: ended}
	default:
		a.problems = append(a.problems, "the process ended early: "+ended)
	}
	return a
}

// start runs a part in its process, or here. It returns how the process ended.
func start(ctx context.Context, cfg Config, name string, take func(message)) (ended string) {
	if cfg.Spawn == nil {
		runPart(ctx, &cfg, name, take)
		return ""
	}
	c := cfg.Spawn(ctx, name, cfg.Skip)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err.Error()
	}
	// A process that neither speaks nor ends is killed: a hang in a library keeps it from saying so.
	silence := time.AfterFunc(3*cfg.limit(), func() { _ = c.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		silence.Reset(3 * cfg.limit())
		var m message
		if json.Unmarshal(lines.Bytes(), &m) == nil { // libraries may print, too
			take(m)
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long: the process must not wait for a reader
	silence.Stop()
	if err := c.Wait(); err != nil {
		return strings.TrimSpace(err.Error() + ": " + tail(stderr.String()))
	}
	return ""
}

// tail keeps the end of what a process wrote.
func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "…" + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}

// Part tries one part and writes its messages for Run. The process that Config.Spawn starts calls it.
func Part(ctx context.Context, cfg Config, name string, out io.Writer) error {
	var errs []error
	runPart(ctx, &cfg, name, func(m message) { errs = append(errs, encode(out, m)) })
	return errors.Join(errs...)
}

func encode(out io.Writer, m message) error { return json.NewEncoder(out).Encode(m) }

// untried returns the names of operators that no result is of.
func untried(results []Result) (names []string) {
	reg, err := ops.NewRegistry(ops.Env{})
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, r := range results {
		seen[r.Op] = true
	}
	v := reflect.ValueOf(reg).Elem()
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if o, ok := v.Field(i).Interface().(interface{ Name() string }); ok && !seen[o.Name()] {
			names = append(names, o.Name())
		}
	}
	slices.Sort(names)
	return names
}
