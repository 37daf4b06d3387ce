package acl

import (
	"fmt"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Library is a group of CANN's libraries as this process finds them.
type Library struct {
	// Name is the group's main library, such as "libascendcl.so".
	Name string
	// Paths are the files that were opened, in the order in which functions are looked up.
	Paths []string
	// Functions is the number of C functions that this module knows in the group.
	Functions int
	// Missing names those of them that no opened file has.
	Missing []string
	// Err is the reason why no file was opened, with what was tried: an ErrNotInstalled. Paths and
	// Missing are then empty.
	Err error
}

// KnownVersions lists the releases of CANN whose interfaces this module knows, oldest first, whatever is installed. It
// also knows functions of newer sources that are in no release.
func KnownVersions() []string {
	all := abi.Releases()
	return all[:len(all)-1]
}

// InstalledRelease returns the newest of KnownVersions whose runtime functions are all in the installed libascendcl, so
// also the release before a newer one that this module does not know. Runtime.CANNVersion returns what CANN's own files
// state. Without CANN it returns an ErrNotInstalled.
func InstalledRelease() (string, error) {
	release, err := cshim.InstalledRelease()
	if err != nil {
		return "", wrap(err)
	}
	return release, nil
}

// Libraries opens the libraries of CANN and looks in them for every C function that this module
// knows. It needs no Open. It takes milliseconds: it is for programs that report on a machine.
func Libraries() ([]Library, error) {
	table, err := abi.Load()
	if err != nil {
		return nil, fmt.Errorf("acl: the table of functions: %w", err)
	}
	functions := make(map[cshim.Library][]string)
	for _, f := range table.AllFunctions() {
		group := groupOf(f.Library)
		functions[group] = append(functions[group], f.Name)
	}
	var all []Library
	for _, group := range cshim.Libraries() {
		l := Library{Name: group.String(), Functions: len(functions[group])}
		paths, err := cshim.Opened(group)
		if err != nil {
			l.Err = wrap(err)
			all = append(all, l)
			continue
		}
		l.Paths = paths
		for _, name := range functions[group] {
			if cshim.NewFunc(group, name).Available() != nil {
				l.Missing = append(l.Missing, name)
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// groupOf is where the functions of a library of the table are looked for.
func groupOf(library string) cshim.Library {
	switch library {
	case "libnnopbase":
		return cshim.NNOp
	case "libopapi", "libcust_opapi":
		return cshim.Op
	case "libhccl":
		return cshim.HCCL
	case "libacl_op_compiler":
		return cshim.OpCompiler
	case "libmsprofiler":
		return cshim.Profiler
	case "libms_tools_ext":
		return cshim.Marks
	case "libdcmi":
		return cshim.Driver
	case "libops_blas":
		return cshim.BLAS
	case "libcann_ops_fft":
		return cshim.FFT
	case "libplatform":
		return cshim.Platform
	}
	return cshim.ACL
}
