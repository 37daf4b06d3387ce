package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// miss is a way in which a case was answered otherwise than it expects. Cases of one operator share it.
type miss struct {
	operator, chip string
	expected       string // code, or "" if the case does not say
	code           int
	said           string // with a refusal
	crashed        bool
}

var (
	codeIn = regexp.MustCompile(`\b(?:0|[135]61\d{3})\b`)
	// mark is the start of the emulator's messages: CANN's code of the message, and the operator.
	mark = regexp.MustCompile(`^E\w\d+: (?:\[.*?\] ?)?(?:aclnn\w+: )?`)
)

func missOf(c vendorCase) miss {
	m := miss{operator: c.Operator, chip: strings.TrimPrefix(c.Chip, "Ascend"), code: c.Code, crashed: c.Outcome == crashed}
	if c.Code != 0 {
		m.said = mark.ReplaceAllString(oneLine(c.Said), "")
	}
	for _, n := range codeIn.FindAllString(c.Wrong, -1) {
		if n != strconv.Itoa(c.Code) {
			m.expected = n
			break
		}
	}
	return m
}

// fallback is the reason that the codes give.
func (m miss) fallback() string {
	switch {
	case m.crashed:
		return "the case calls what is in no library"
	case m.code == 0 && m.expected != "":
		return "the case expects a refusal that the rules taken from the sources do not have"
	case m.expected == "0":
		return "the emulator refuses what it does not compute, and the case expects it to be accepted"
	case m.expected != "":
		return "the emulator refuses the call as the case expects, with another code"
	}
	return "the case checks something else than the code"
}

// tail is the end of a line about the miss.
func (m miss) tail() string {
	if m.crashed {
		return ""
	}
	text := fmt.Sprintf("; %d is answered", m.code)
	if m.expected != "" {
		text = fmt.Sprintf("; expects %s, %d is answered", m.expected, m.code)
	}
	if m.said != "" {
		text += ": " + m.said
	}
	return text
}
