package puppet

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// variable tells a process that it is a puppet.
const variable = "CANN_TEST_PUPPET"

// Do obeys one command: its words, and the answer's code and text.
type Do func(words []string) (code int, text string)

// Plays returns false in the test's process. In a puppet it calls make once, answers the
// commands of the test until there are no more, and returns true.
func Plays(make func() Do) bool {
	if os.Getenv(variable) == "" {
		return false
	}
	do := make()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		code, text := do(strings.Fields(lines.Text()))
		fmt.Printf("%d %s\n", code, strings.ReplaceAll(text, "\n", " "))
	}
	return true
}

// longest is the longest command or answer in bytes.
const longest = 1 << 20
