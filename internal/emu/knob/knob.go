package knob

import (
	"os"
	"sync"
)

var (
	mu    sync.Mutex
	names = make(map[string]bool) // that were read
)

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
