package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// maxLine limits how much of an unfinished line is buffered; progress bars may never end a line.
const maxLine = 64 << 10

// lineWriter writes whole lines with a prefix to a writer that it shares with others.
type lineWriter struct {
	to     io.Writer
	lock   *sync.Mutex // guards to
	prefix string

	held []byte   // the unfinished line
	last []string // the last lines, at most lastLines
}

// lastLines is how many lines of a rank that fails are shown again.
const lastLines = 5

// lastWidth limits these lines, in bytes.
const lastWidth = 1000

// Write never fails, so that a rank does not die when the terminal is closed.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	for {
		n := bytes.IndexByte(w.held, '\n') + 1
		if n == 0 && len(w.held) < maxLine {
			return len(p), nil
		}
		if n == 0 {
			n = maxLine
		}
		w.line(w.held[:n])
		w.held = w.held[n:]
	}
}

// flush writes an unfinished last line.
func (w *lineWriter) flush() {
	if len(w.held) > 0 {
		w.line(w.held)
		w.held = nil
	}
}

func (w *lineWriter) line(b []byte) {
	out := append([]byte(w.prefix), b...)
	if out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	if len(w.last) == lastLines {
		w.last = w.last[1:]
	}
	w.last = append(w.last, strings.TrimRight(string(b[:min(len(b), lastWidth)]), "\r\n"))
	w.lock.Lock()
	defer w.lock.Unlock()
	w.to.Write(out)
}
