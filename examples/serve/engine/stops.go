package engine

import "strings"

// Stops looks for stop strings in a text that comes in pieces. It holds back text that may be the start
// of one.
type Stops struct {
	stops []string
	held  string
}

// NewStops makes a search for any of the strings. Empty ones never occur.
func NewStops(stops []string) *Stops { return &Stops{stops: stops} }

// Next takes the next piece, and returns the text that is certain not to belong to a stop string. If
// found, the text ended before a stop string, and the rest is dropped.
func (s *Stops) Next(piece string) (text string, found bool) {
	s.held += piece
	at := len(s.held)
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); stop != "" && i >= 0 && i < at {
			at, found = i, true
		}
	}
	if !found {
		at -= s.start()
	}
	text, s.held = s.held[:at], s.held[at:]
	if found {
		s.held = ""
	}
	return text, found
}

// start returns the length of the longest end of the held text that a stop string begins with.
func (s *Stops) start() int {
	longest := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > longest; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Flush returns the text that was held back, at the end of the text.
func (s *Stops) Flush() string {
	text := s.held
	s.held = ""
	return text
}
