package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/durable"
	"github.com/goascend/cann/examples/npuinfo/smoke"
)

// tryOptions are the flags about trying the machine.
type tryOptions struct {
	smoke        bool
	report, only string
	toolkit      string // operator packages, separated as in PATH
	limit        time.Duration
	here         bool
	part, skip   string // of a process that tries one part
}

func (o *tryOptions) define(f *command.Flags) {
	f.BoolVar(&o.smoke, "smoke", false, "try every kernel, copies, launches and collectives, and write a report")
	f.StringVar(&o.report, "report", "npuinfo-smoke", "`name` of the report's files, without their suffixes .txt and .json")
	f.StringVar(&o.only, "only", "", "try only the parts whose names begin with this `prefix`, such as golden:attn or measure:copies")
	f.DurationVar(&o.limit, "limit", time.Minute, "how long a kernel may take")
	f.BoolVar(&o.here, "here", false, "try everything in this process, so that a crash or a hang ends it")
	f.StringVar(&o.toolkit, "toolkit", "", "`folders` of operator packages whose kernel configurations are read (default: those of the installation)")
	f.StringVar(&o.part, "part", "", "try only this part and write its results for -smoke")
	f.StringVar(&o.skip, "part-skip", "", "steps that -part leaves out, one in each line")
}

// runPart tries one part for another process.
func (o *tryOptions) runPart(ctx context.Context, out io.Writer) error {
	dir, err := smoke.GoldenFolder()
	if err != nil {
		dir = "" // other parts need none
	}
	return smoke.Part(ctx, smoke.Config{Golden: dir, Limit: o.limit, Skip: strings.Split(o.skip, "\n")}, o.part, out)
}

// foresee reads the toolkit. Nothing has run before.
func (r *report) foresee(o tryOptions) {
	packages := smoke.OperatorFolders()
	if o.toolkit != "" {
		packages = filepath.SplitList(o.toolkit)
	}
	r.Toolkit = smoke.ReadToolkit(packages, r.Runtime.SoC)
	if r.Toolkit.Kernels > 0 {
		r.Foreseen = r.Toolkit.Foresee(smoke.KnownNeeds())
	}
}

// try tries the machine.
func (r *report) try(ctx context.Context, o tryOptions, progress io.Writer) {
	cfg := smoke.Config{Limit: o.limit, Only: o.only, Progress: progress, Spawn: smoke.Myself("-part")}
	if o.here {
		cfg.Spawn = nil
	}
	dir, err := smoke.GoldenFolder()
	cfg.Golden = dir
	r.Smoke = smoke.Run(ctx, cfg)
	if err != nil {
		r.Smoke.Problems = append(r.Smoke.Problems, err.Error())
	}
}

// save writes the report as text and as JSON.
func (r *report) save(name string) error {
	var errs []error
	for _, json := range []bool{false, true} {
		var b bytes.Buffer
		errs = append(errs, r.write(&b, options{json: json, missing: true}))
		suffix := map[bool]string{false: ".txt", true: ".json"}[json]
		errs = append(errs, durable.Write(name+suffix, &b))
	}
	return errors.Join(errs...)
}

// writeToolkit writes what the configurations of kernels say.
func (r *report) writeToolkit(line func(string, ...any)) {
	t := r.Toolkit
	if t == nil {
		return
	}
	line("toolkit: %d kernels for %s", t.Kernels, t.Chip)
	for _, dir := range t.Folders {
		line("    %s", dir)
	}
	for _, p := range t.Problems {
		line("    cannot be read: %s", p)
	}
	if t.Kernels == 0 {
		line("    without configurations of kernels nothing can be foreseen")
		return
	}
	for _, f := range r.Foreseen {
		line("foreseen %-8s %s: %s: %s", f.Outlook, f.Kernel, f.Call, f.Reason)
	}
	line("foreseen: %d calls are not ready for the AI Core", len(r.Foreseen))
}

// writeSmoke writes what was tried and measured.
func (r *report) writeSmoke(line func(string, ...any)) {
	if r.Smoke == nil {
		return
	}
	for _, m := range r.Smoke.Measures {
		line("%-56s %12.2f %s", m.Name, m.Value, m.Unit)
	}
	micro := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Nanoseconds())/1e3) }
	line("%-10s %-70s %10s %10s %10s %9s", "verdict", "case|dtype|operator|kernel", "first/µs", "host/µs", "device/µs", "error")
	count := map[smoke.Verdict]int{}
	for _, x := range r.Smoke.Results {
		count[x.Verdict]++
		if x.Verdict == smoke.OK || x.Verdict == smoke.Wrong {
			line("%-10s %-70s %10s %10s %10s %9.2g", x.Verdict, x.Name(), micro(x.First), micro(x.Host), micro(x.Device), x.Error)
		} else {
			line("%-10s %s", x.Verdict, x.Name())
		}
		if x.Reason != "" {
			line("    %s", strings.ReplaceAll(x.Reason, "\n", "\n    "))
		}
	}
	for _, p := range r.Smoke.Problems {
		line("problem: %s", p)
	}
	for _, name := range r.Smoke.Untried {
		line("no case for %s", name)
	}
	total := 0
	var parts []string
	for _, v := range []smoke.Verdict{smoke.OK, smoke.Unfit, smoke.Wrong, smoke.Refused, smoke.Failed, smoke.Hung, smoke.Crashed} {
		if n := count[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
			total += n
		}
	}
	line("smoke: %d kernels with arguments: %s; %d problems", total, strings.Join(parts, ", "), len(r.Smoke.Problems))
}
