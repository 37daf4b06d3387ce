// Command npuinfo says what this machine offers: CANN's libraries and where they are, the
// functions they lack, the devices, and which kernels the operators would get.
//
//	go run -tags emu ./examples/npuinfo
//	npuinfo -json
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	asJSON := flag.Bool("json", false, "write JSON")
	missing := flag.Bool("missing", false, "list the functions that are missing, not only their number")
	flag.Parse()
	r, err := inspect()
	if err == nil {
		err = r.write(os.Stdout, *asJSON, *missing)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "npuinfo:", err)
		os.Exit(1)
	}
}

func (r *report) write(w io.Writer, asJSON, missing bool) error {
	if asJSON {
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
			line("%-24s not found: %s", l.Name, l.Error)
		default:
			line("%-24s %d functions, %d missing", l.Name, l.Functions, len(l.Missing))
			for _, p := range l.Paths {
				line("    %s", p)
			}
			if missing {
				for _, m := range l.Missing {
					line("    missing %s", m)
				}
			}
		}
	}
	if r.Runtime.Error != "" {
		line("runtime                  %s", r.Runtime.Error)
	} else {
		line("runtime %s, CANN %s, %s", r.Runtime.API, r.Runtime.CANN, r.Runtime.SoC)
	}
	for _, d := range r.Devices {
		line("device %d: %s, %d MiB free of %d, %d vector cores, L2 %d MiB", d.ID, d.Name, d.Free>>20, d.Total>>20, d.VectorCores, d.L2>>20)
	}
	for _, k := range r.Kernels {
		line("%s", k)
	}
	for _, name := range sorted(r.Knobs) {
		line("%s=%s", name, r.Knobs[name])
	}
	return errors.Join(errs...)
}
