package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/goascend/cann/acl"
)

// writeHeaders prints how a folder of C headers differs from what the binding knows of a release.
func writeHeaders(w io.Writer, o options) error {
	r, err := acl.CompareHeaders(o.release, os.DirFS(o.headers))
	if err != nil {
		return fmt.Errorf("-headers %s: %w", o.headers, err)
	}
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		_, err = fmt.Fprintf(w, "%s, CANN %s: %d functions and constants agree, %d missing, %d different, %d that the binding lacks\n",
			o.headers, r.Release, r.Equal, len(r.Missing), len(r.Different), len(r.Unknown))
		for _, list := range []struct {
			what  string
			names []string
		}{{"missing", r.Missing}, {"different", r.Different}, {"lacking", r.Unknown}} {
			for _, name := range list.names {
				if err == nil && (o.missing || list.what == "different") {
					_, err = fmt.Fprintf(w, "    %s %s\n", list.what, name)
				}
			}
		}
	}
	if err == nil && len(r.Different) > 0 {
		return fmt.Errorf("%d declarations in %s differ from CANN %s: is -release right?", len(r.Different), o.headers, r.Release)
	}
	return err
}
