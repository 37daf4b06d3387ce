package puppet

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// variable is set in a process that is a puppet.
const variable = "CANN_TEST_PUPPET"

// Do executes one command, given as words, and returns the code and the text of the answer.
type Do func(words []string) (code int, text string)

// Plays returns false at once in the test's process. In a puppet it calls make once, answers
// commands until the test closes the puppet's input, and returns true.
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
