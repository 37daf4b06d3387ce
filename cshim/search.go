//go:build !emu && linux && cgo && (amd64 || arm64)

package cshim

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// candidate is a file that may hold a library: dlopen's search for a bare name, or a path.
// Of several candidates with one name, the first that opens is used.
type candidate struct {
	name   string
	path   string
	custom bool // part of an operator package installed beside CANN
	extra  bool // not in every version: its absence is no news
}

// homes are the roots of a CANN installation, those named by the environment first.
func homes() []string {
	var out []string
	for _, v := range []string{"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"} {
		if d := os.Getenv(v); d != "" {
			out = append(out, d)
		}
	}
	return append(out, "/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")
}

// candidates lists where the libraries of a group may be, in the order of precedence.
func candidates(l Library) []candidate {
	switch l {
	case ACL:
		return append(inHomes("libascendcl.so"), inHomes("libacl_rt.so")...)
	case Op:
		return append(customPackages(), operatorLibraries()...)
	case HCCL: // from 9.x on libhcomm manages the communicators
		return append(inHomes("libhccl.so"), extra(inHomes("libhcomm.so"))...)
	case Marks: // a tool of its own
		out := inHomes(l.String())
		for _, h := range homes() {
			out = append(out, candidate{name: l.String(), path: filepath.Join(h, "tools/mstx/lib64", l.String())})
		}
		return out
	case Driver:
		out := inHomes(l.String())
		for _, dir := range []string{"/usr/local/dcmi", "/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64"} {
			out = append(out, candidate{name: l.String(), path: filepath.Join(dir, l.String())})
		}
		return out
	}
	return inHomes(l.String())
}

// inHomes is a bare name, which LD_LIBRARY_PATH decides, and then the installations.
func inHomes(name string) []candidate {
	out := []candidate{{name: name, path: name}}
	for _, h := range homes() {
		out = append(out, candidate{name: name, path: filepath.Join(h, "lib64", name)})
	}
	return out
}

const customLibrary = "op_api/lib/libcust_opapi.so"

// customPackages are the operator packages that come before CANN's own operators: those of
// ASCEND_CUSTOM_OPP_PATH, then the vendors of ASCEND_OPP_PATH in the order of config.ini.
func customPackages() []candidate {
	var out []candidate
	add := func(dir string) {
		p := filepath.Join(dir, customLibrary)
		out = append(out, candidate{name: p, path: p, custom: true})
	}
	for _, dir := range filepath.SplitList(os.Getenv("ASCEND_CUSTOM_OPP_PATH")) {
		if dir != "" {
			add(dir)
		}
	}
	opp := os.Getenv("ASCEND_OPP_PATH")
	if opp == "" {
		return out
	}
	config, err := os.ReadFile(filepath.Join(opp, "vendors", "config.ini"))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(config)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "load_priority="); ok {
			for name := range strings.SplitSeq(list, ",") {
				if name = strings.TrimSpace(name); name != "" {
					add(filepath.Join(opp, "vendors", name))
				}
			}
		}
	}
	return out
}

// Newer versions split libopapi into parts, and some older ones keep families of operators in
// libraries of their own. The rest of libopapi, libopapi_legacy, comes after the other parts.
var (
	parts    = []string{"math", "nn", "cv", "transformer", "oam"}
	families = []string{"ops_infer", "ops_train", "math", "sparse", "fft", "rand"}
)

const legacy = "libopapi_legacy.so"

// operatorLibraries are CANN's own: the parts, those of an installation that are not known here
// among them, then libopapi, then the families.
func operatorLibraries() []candidate {
	var out []candidate
	for _, p := range parts {
		out = append(out, extra(inHomes("libopapi_"+p+".so"))...)
	}
	for _, h := range homes() {
		lib := filepath.Join(h, "lib64")
		found, _ := fs.Glob(os.DirFS(lib), "libopapi_*.so") // the pattern is well-formed
		for _, name := range found {
			if name != legacy {
				out = append(out, candidate{name: name, path: filepath.Join(lib, name)})
			}
		}
	}
	out = append(out, extra(inHomes(legacy))...)
	out = append(out, inOperatorFolders("libopapi.so")...)
	for _, f := range families {
		out = append(out, extra(inOperatorFolders("libaclnn_"+f+".so"))...)
	}
	return out
}

// inOperatorFolders is inHomes and the folders where versions up to 8 keep the operators.
func inOperatorFolders(name string) []candidate {
	out := inHomes(name)
	opps := []string{os.Getenv("ASCEND_OPP_PATH")}
	for _, h := range homes() {
		opps = append(opps, filepath.Join(h, "opp"))
	}
	for _, opp := range opps {
		if opp != "" {
			dir := filepath.Join(opp, "built-in/op_impl/ai_core/tbe/op_api/lib/linux", machines[runtime.GOARCH])
			out = append(out, candidate{name: name, path: filepath.Join(dir, name)})
		}
	}
	return out
}

// machines are CANN's names of the processors.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

func extra(cs []candidate) []candidate {
	for i := range cs {
		cs[i].extra = true
	}
	return cs
}

// allowed refuses an operator package that another user could have planted.
func (c candidate) allowed() error {
	if !c.custom {
		return nil
	}
	info, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if me := uint32(os.Geteuid()); owner != me && owner != 0 {
		return fmt.Errorf("owned by user %d; operator packages must belong to root or to user %d", owner, me)
	}
	return nil
}
