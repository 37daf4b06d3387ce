package main

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is how much of a line is held back until it ends; progress bars may never end one.
const maxLine = 64 << 10

// lineWriter writes whole lines behind a prefix to a writer that it shares.
type lineWriter struct {
	to     io.Writer
	lock   *sync.Mutex // of to
	prefix string

	held []byte // the line that has not ended
}

// Write never fails: a rank is not to die of a closed terminal.
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

// flush writes what is held of a last line without an end.
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
	w.lock.Lock()
	defer w.lock.Unlock()
	w.to.Write(out)
}
