package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

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
		_, err = fmt.Fprintf(w, "%s, CANN %s: %d functions, %d constants, %d types and %d records agree, %d missing, %d different, %d that the binding lacks, %d not compared\n",
			o.headers, r.Release, r.Kinds.Functions, r.Kinds.Constants, r.Kinds.Types, r.Kinds.Records, len(r.Missing), len(r.Different), len(r.Unknown), len(r.Outside))
		err = errors.Join(err, writeCounts(w, r.Headers))
		for _, list := range []struct {
			what  string
			names []string
		}{{"missing", r.Missing}, {"different", r.Different}, {"lacking", r.Unknown}, {"not compared:", r.Outside}} {
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

// writeCounts prints a table of headers. Headers of operators, of which there are hundreds, share a row unless
// something of them is missing or different.
func writeCounts(w io.Writer, headers []acl.HeaderCount) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(c acl.HeaderCount) {
		fmt.Fprintf(table, "    \t%d\t%d\t%d\t%d\t%d\t  %s\n", c.Equal, c.Missing, c.Different, c.Unknown, c.Outside, c.Header) // errors surface in Flush
	}
	fmt.Fprint(table, "    \tagree\tmissing\tdifferent\tlacking\tnot compared\t  header\n")
	var rest acl.HeaderCount
	shared := 0
	for _, c := range headers {
		if strings.HasPrefix(c.Header, "aclnnop/") && c.Missing+c.Different+c.Unknown+c.Outside == 0 {
			rest.Equal += c.Equal
			shared++
			continue
		}
		row(c)
	}
	if shared > 0 {
		rest.Header = fmt.Sprintf("%d headers of aclnnop", shared)
		row(rest)
	}
	return table.Flush()
}
