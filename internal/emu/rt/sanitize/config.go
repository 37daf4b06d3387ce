package sanitize

import (
	"fmt"
	"strings"
)

// Config is which misuse of device memory is reported.
type Config struct {
	Memory bool // reads of bytes that were never written
	Race   bool // conflicting accesses without an order between them
}

// Parse parses CANN_EMU_SANITIZE: "memory", "race", or both separated by a comma.
func Parse(text string) (c Config, err error) {
	for part := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(part) {
		case "":
		case "memory":
			c.Memory = true
		case "race":
			c.Race = true
		default:
			return c, fmt.Errorf("CANN_EMU_SANITIZE=%q: memory, race or memory,race are possible", text)
		}
	}
	return c, nil
}
