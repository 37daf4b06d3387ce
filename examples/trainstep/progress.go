package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows the progress of the training: on a terminal in one line that is overwritten,
// otherwise (in a file or behind a launcher) in one line per call.
type progress struct {
	out      io.Writer
	terminal bool
	width    int // length of the line on the terminal
	done, of int // steps, for a bar on the terminal; none if of is 0
	left     time.Duration
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// plain is the output of a rank that a launcher has started. Some launchers give their ranks a terminal
// when their own output is none.
type plain struct{ io.Writer }

// show writes a line.
func (p *progress) show(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	if p.of > 0 {
		line = fmt.Sprintf("%s  %s  %v left", bar(p.done, p.of), line, p.left.Round(time.Second))
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line) // spaces overwrite the rest of a longer line
	p.width = len(line)
}

// bar draws which part of the steps is done.
func bar(done, of int) string {
	const width = 20
	full := min(width, width*done/of)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// end moves to a new line after the progress line.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.out)
	}
	p.width = 0
}
