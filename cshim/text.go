package cshim

import (
	"regexp"
	"strings"
)

// The parts of CANN's error texts. A text has entries; the first line of one begins with an identifier, a process id, a
// time and a title with the identifier, of which releases leave out some:
//
//	[PID: 7] 2026-01-31-10:00:00.000.000 AclNN_Parameter_Error(EZ1001): self has 9 dimensions.
//	        Solution: use at most 8
//	        TraceBack (most recent call last):
//	        aclnnAdd failed[FUNC:Check][FILE:add.cpp][LINE:9]
//	EZ9999: Inner Error!
//	EZ9999: [PID: 7] 2026-01-31-10:00:00.000.000 Parse dynamic kernel config fail.
var (
	textHead  = regexp.MustCompile(`^(?:([EW][0-9A-Z]\d{4})(?::\s*|\s*\[|$))?(?:\[?PID: \d+\]\s*)?(?:\d{4}-\d\d-\d\d-[\d:.]+\s+)?(?:\w+\(([EW][0-9A-Z]\d{4})\):\s*)?(.*)$`)
	textPlace = regexp.MustCompile(`\s*\[FUNC:[^\]]*\]\s*\[FILE:[^\]]*\]\s*\[LINE:[^\]]*\]`)
)

// textEntry is an entry of a text.
type textEntry struct {
	id, text string
	trace    []string // what follows TraceBack, innermost first
}

// inner reports whether the entry is one of an inner error, whose trace has the reason.
func (e textEntry) inner() bool {
	return strings.HasSuffix(e.id, "9999") || strings.HasSuffix(e.id, "8888")
}

// readable makes one line of the text that CANN has for a failed call with a code: identifiers and what they mean. It leaves
// out times, places in CANN's sources, and entries that belong to calls before, whose failures CANN itself ignored.
func readable(code int32, text string) string {
	var entries []textEntry
	traced := false
	for line := range strings.Lines(text) {
		line = textPlace.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
		of := textHead.FindStringSubmatch(line)
		content := strings.TrimSpace(line)
		switch id := of[1] + of[2]; {
		case content == "":
		case id != "" || strings.HasPrefix(content, "[PID: "):
			id = id[max(0, len(id)-6):] // both of them are the same
			content, traced = strings.TrimSpace(of[3]), false
			if content != "Inner Error!" && content != "Internal error!" && content != "Internal Error!" {
				entries = append(entries, textEntry{id: id, text: content})
			}
		case strings.HasPrefix(content, "TraceBack"):
			traced = true
		case len(entries) == 0:
			entries = append(entries, textEntry{text: content})
		default:
			last := &entries[len(entries)-1]
			if traced {
				last.trace = append(last.trace, content)
			} else if what, is := strings.CutPrefix(content, "Solution:"); !is || strings.Trim(what, " N/A.") != "" {
				last.text += "; " + content
			}
		}
	}
	var kept []string
	for i, e := range entries {
		// Each call fails with one argument: those before the last entry are of other calls. Memory that was exhausted, and
		// inner errors, are often the cause of what follows.
		if i < len(entries)-1 && e.id != "" && !e.inner() && !strings.HasPrefix(e.id, "EL") {
			continue
		}
		// The order of calls is the runtime's business: in an operator it was a probe that nobody minded.
		if e.id == "EE1018" && (code/1000 == 161 || code/1000 == 561) {
			continue
		}
		if e.inner() {
			e.text = strings.Join(append([]string{strings.TrimSuffix(e.text, ".")}, e.trace...), "; ")
		}
		if e.id != "" {
			e.text = e.id + ": " + e.text
		}
		kept = append(kept, e.text)
	}
	return strings.Join(kept, "; ")
}
