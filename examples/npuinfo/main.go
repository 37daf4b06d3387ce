package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/goascend/cann/examples/command"
)

const about = `npuinfo reports what this machine offers: CANN's libraries and their places, the functions that they
lack, the devices, the kernels that operators would get, and the environment variables that are set.

With -smoke it tries the machine: every kernel of ops against reference data in bfloat16 and float32,
copies, launches, and collectives over all devices. Before that it reads the toolkit's configurations of
kernels, and reports which calls they will refuse or run on the AI CPU. It also writes the report as text
and JSON to files: attach both to a bug report.

With -trace it lists the calls of an emulated program that a 910B would run on its slow AI CPU, and the
calls that the toolkit of this machine, or of -toolkit, would not run. With -flight it shows what the ranks
of a job did last. With -diff it compares two chips; the facts come from CANN's platform files and the
public sources of its operators, and neither needs to be installed. With -headers it compares a machine's
C headers with what the binding knows, and fails if a call could pass wrong arguments.`

var samples = []string{
	"go run -tags emu ./examples/npuinfo",
	"go run ./examples/npuinfo -missing",
	"go run ./examples/npuinfo -json",
	"go run ./examples/npuinfo -flight /tmp/cann-flight-1",
	"go run ./examples/npuinfo -diff Ascend910B1,Ascend310P3",
	"go run ./examples/npuinfo -headers /usr/local/Ascend/cann/include -release 9.0.0",
	"go run ./examples/npuinfo -smoke",
	"go run ./examples/npuinfo -smoke -report day1 -only golden:attn",
	"go run ./examples/npuinfo -trace step.json -toolkit /usr/local/Ascend/ascend-toolkit/latest/opp/built-in",
}

// options are the flags.
type options struct {
	json, missing bool
	trace         string // file
	flight        string // folder
	headers       string // folder
	release       string // to compare the headers with
	diff          string // two chips
	try           tryOptions
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "npuinfo [flags]", about, samples...)
	f.BoolVar(&o.json, "json", false, "write JSON")
	f.BoolVar(&o.missing, "missing", false, "list the missing functions, in place of their number")
	f.StringVar(&o.flight, "flight", "", "merge the flight records of a job's ranks in this `folder` into one report")
	f.StringVar(&o.diff, "diff", "", "print how two `chips` differ: cores, memory, operators, element types")
	f.StringVar(&o.headers, "headers", "", "compare the C headers in this `folder`, such as an installation's include, with what the binding knows of -release")
	f.StringVar(&o.release, "release", "", "the `release` of CANN that the headers are compared with, such as 9.0.0; the installed one unless given")
	f.StringVar(&o.trace, "trace", "", "list the calls that leave the AI Core in this trace `file`, written by CANN_EMU_TRACE")
	o.try.define(f)
	if err := f.Parse(args); err != nil || o.try.smoke || o.try.part != "" {
		return o, err
	}
	if o.headers == "" {
		if err := f.Idle("-headers", "release"); err != nil {
			return o, err
		}
	}
	return o, f.Idle("-smoke", "report", "only", "limit", "here")
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the program
	switch {
	case err != nil:
	case o.diff != "":
		err = writeDifference(os.Stdout, o)
	case o.headers != "":
		err = writeHeaders(os.Stdout, o)
	case o.flight != "":
		err = writeFlight(os.Stdout, o)
	case o.try.part != "":
		err = o.try.runPart(ctx, os.Stdout)
	case o.trace != "":
		err = writeTrace(os.Stdout, o)
	default:
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "npuinfo:", err)
		os.Exit(1)
	}
}

// run inspects the machine, and tries it if asked to.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	r, err := inspect()
	if err != nil {
		return err
	}
	if o.try.smoke || o.try.toolkit != "" {
		r.foresee(o.try)
	}
	if !o.try.smoke {
		return r.write(out, o)
	}
	r.try(ctx, o.try, progress)
	if err := errors.Join(r.write(out, o), r.save(o.try.report)); err != nil {
		return err
	}
	if bad := r.Smoke.Bad(); bad > 0 {
		return fmt.Errorf("%d results are bad; %s.txt and %s.json have them", bad, o.try.report, o.try.report)
	}
	return nil
}

func (r *report) write(w io.Writer, o options) error {
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	line("binding for CANN %s, %s", r.Binding, r.Go)
	for _, l := range r.Libraries {
		switch {
		case l.Error != "":
			line("%-24s %s", l.Name, l.Error)
		default:
			line("%-24s %d functions, %d missing", l.Name, l.Functions, len(l.Missing))
			for _, p := range l.Paths {
				line("    %s", p)
			}
			if o.missing {
				for _, m := range l.Missing {
					line("    missing %s", m)
				}
			}
		}
	}
	if r.Runtime.Error != "" {
		line("runtime                  %s", r.Runtime.Error)
	} else {
		line("runtime %s, CANN %s with the functions of %s, %s", r.Runtime.API, r.Runtime.CANN, r.Runtime.Release, r.Runtime.SoC)
	}
	for _, d := range r.Devices {
		line("device %d: %s, %d MiB free of %d, %d vector cores, L2 %d MiB", d.ID, d.Name, d.Free>>20, d.Total>>20, d.VectorCores, d.L2>>20)
		if h := d.Health; h == nil {
			line("    health: %s", d.Silence)
		} else {
			line("    card %d chip %d: alarm %v, cores %d%%, %d MiB in use of %d, %d °C, %.1f W, %d memory errors corrected, %d not",
				h.Card, h.Chip, h.Alarm, h.AICore, h.MemoryUsed>>20, h.MemoryTotal>>20, h.Temperature, h.Power, h.ECC.Corrected, h.ECC.Uncorrected)
			for _, f := range h.Faults {
				line("    fault %#x %s", f.Code, f.Text)
			}
		}
	}
	for _, k := range r.Kernels {
		line("%s", k)
	}
	for _, name := range sorted(r.Knobs) {
		line("%s=%s", name, r.Knobs[name])
	}
	r.writeToolkit(line)
	r.writeSmoke(line)
	return errors.Join(errs...)
}
