package process

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// variable is set in a process that is a child process.
const variable = "CANN_TEST_CHILD"

// Do executes one command, given as words, and returns the code and the text of the answer.
type Do func(words []string) (code int, text string)

// IsChild returns false at once in the test's process. In a child process it calls make once, answers
// commands until the test closes the child process's input, and returns true.
func IsChild(make func() Do) bool {
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
