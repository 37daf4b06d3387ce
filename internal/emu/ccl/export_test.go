package ccl

// ParseTable is the number of ranks of a table.
func ParseTable(text []byte) (int, error) {
	t, err := parseTable(text)
	if err != nil {
		return 0, err
	}
	return len(t.ranks), nil
}
