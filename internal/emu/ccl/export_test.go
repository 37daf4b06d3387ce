package ccl

// ParseTable is the number of ranks of a table.
func ParseTable(text []byte) (int, error) {
	t, err := parseTable(text)
	if err != nil {
		return 0, err
	}
	return len(t.ranks), nil
}

// MoveToOwnHost makes a library's peers of other processes be on other hosts.
func MoveToOwnHost(l *Library) { l.host = random(16) }
