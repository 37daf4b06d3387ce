package knob

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

var (
	mu    sync.Mutex
	names = make(map[string]bool) // that were read
)

// known lists the variables that the emulator reads.
var known = []string{
	"CANN_EMU_API", "CANN_EMU_COLD_PREPARE", "CANN_EMU_CONNECT_TIMEOUT", "CANN_EMU_CPU", "CANN_EMU_CUBE", "CANN_EMU_DEVICES", "CANN_EMU_FAST", "CANN_EMU_FAULTS", "CANN_EMU_FAULT_SEED",
	"CANN_EMU_HEALTH", "CANN_EMU_MEMORY", "CANN_EMU_SANITIZE", "CANN_EMU_SCHEDULE", "CANN_EMU_SOC", "CANN_EMU_THREADS", "CANN_EMU_THREAD_START", "CANN_EMU_TRACE",
}

// Unknown returns an error that names a variable of an environment (os.Environ) that looks like one of the emulator's
// and is none, or nil. Variables of tests begin with CANN_EMU_TEST_.
func Unknown(environment []string) error {
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "CANN_EMU_") && !strings.HasPrefix(name, "CANN_EMU_TEST_") && !slices.Contains(known, name) {
			return fmt.Errorf("%s is no variable of the emulator; it has %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Get returns the value of a variable, "" if it is not set.
func Get(name string) string {
	value, _ := Lookup(name)
	return value
}

// Lookup returns the value of a variable and whether it is set.
func Lookup(name string) (string, bool) {
	mu.Lock()
	defer mu.Unlock()
	names[name] = true
	return os.LookupEnv(name)
}

// Reread reads all variables again.
func Reread() {
	mu.Lock()
	defer mu.Unlock()
	for name := range names {
		_, _ = os.LookupEnv(name)
	}
}
