package knob

// extern char **environ;
// static char **environment(void) { return environ; }
import "C"

import (
	"os"
	"strings"
	"unsafe"
)

// A Go runtime in a shared library reads the environment that the process started with. A program that loads it
// later may have changed the environment since, as Python programs do with os.environ: what C has now counts.
func init() {
	gone := map[string]bool{}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		gone[name] = true
	}
	for at := C.environment(); at != nil && *at != nil; at = (**C.char)(unsafe.Add(unsafe.Pointer(at), unsafe.Sizeof(*at))) {
		name, value, _ := strings.Cut(C.GoString(*at), "=")
		delete(gone, name)
		if now, set := os.LookupEnv(name); !set || now != value {
			_ = os.Setenv(name, value) // fails only for names that no program can ask for
		}
	}
	for name := range gone {
		_ = os.Unsetenv(name)
	}
}
