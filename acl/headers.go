package acl

import (
	"fmt"
	"io/fs"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// HeaderReport is how CANN's headers differ from what this module knows of a release.
type HeaderReport struct {
	Release string
	// Equal is the number of functions, constants, types and records that agree.
	Equal int
	// Missing are names that the release has, as far as this module knows, and no header declares.
	Missing []string
	// Different describes declarations with other parameters, values or fields: a call of them must not be trusted.
	Different []string
	// Unknown are names that the headers declare and that this module does not know, or knows of other releases only.
	Unknown []string
	// Outside describes names that are not compared, each with the reason: this module leaves them out on purpose, or libraries
	// have them and no installed header declares them.
	Outside []string
	// Kinds has the number of declarations that agree by their kind.
	Kinds HeaderKinds
	// Headers has these counts for each header, such as "acl/acl_rt.h". A declaration that no header of the release has is counted as
	// missing from the header to which the table assigns it.
	Headers []HeaderCount
}

// HeaderKinds counts declarations by their kind: functions, constants (enumerators and macros with integers), types (handles, aliases and
// pointers to functions) and records (structs and unions).
type HeaderKinds struct{ Functions, Constants, Types, Records int }

// HeaderCount counts the declarations of one header.
type HeaderCount struct {
	Header                                      string
	Equal, Missing, Different, Unknown, Outside int
}

// CompareHeaders compares the C headers below a folder, such as an installation's include, with what this module knows
// of a release, "" for InstalledRelease. It compares what the folders acl, aclnn, aclnnop, hccl and hcomm declare that are there, and
// the headers of the driver's library, ops-blas and ops-fft: parameters of functions, values of constants, types, and the fields of
// structs and unions with their places in memory. An unknown release is refused.
func CompareHeaders(release string, headers fs.FS) (HeaderReport, error) {
	var err error
	if release == "" {
		if release, err = InstalledRelease(); err != nil {
			return HeaderReport{}, err
		}
	}
	table, err := abi.Load()
	if err != nil {
		return HeaderReport{}, fmt.Errorf("acl: the table of functions: %w", err)
	}
	c, err := header.Compare(table, release, headers)
	if err != nil {
		return HeaderReport{}, fmt.Errorf("acl: CompareHeaders: %w: %w", ErrInvalidArgument, err)
	}
	r := HeaderReport{Release: release, Equal: c.Equal, Missing: c.Missing, Unknown: c.Unknown}
	r.Kinds = HeaderKinds(c.Kinds)
	for _, d := range c.Different {
		r.Different = append(r.Different, d.String())
	}
	for _, o := range c.Outside {
		r.Outside = append(r.Outside, o.Name+": "+o.Reason)
	}
	for _, h := range c.Headers {
		r.Headers = append(r.Headers, HeaderCount(h))
	}
	return r, nil
}
