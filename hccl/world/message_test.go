package world

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bytesOf returns the encoding of a message.
func bytesOf(m *message) []byte { return append(m.appendHead(nil), m.body...) }

func TestMessages(t *testing.T) {
	m := &message{kind: abort, cause: 3, call: 9, budget: time.Second, label: "all-gather", ranks: []int{1, 70000}, body: []byte("body")}
	got, err := parseMessage(bytesOf(m))
	require.NoError(t, err)
	assert.Equal(t, m, got)
	long := &message{kind: failure, label: strings.Repeat("x", 2*maxLabel), ranks: make([]int, 2*maxBlamed)}
	got, err = parseMessage(bytesOf(long))
	require.NoError(t, err)
	assert.Len(t, got.label, maxLabel)
	assert.Len(t, got.ranks, maxBlamed)
	assert.LessOrEqual(t, len(bytesOf(long)), maxMessageHead)
}

func FuzzMessage(f *testing.F) {
	f.Add(bytesOf(&message{kind: contribution, call: 9, label: "x", ranks: []int{1}, body: []byte("body")}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data)
		if err != nil {
			return
		}
		again, err := parseMessage(bytesOf(m))
		require.NoError(t, err)
		require.Equal(t, m, again)
		if list, err := unpackList(m.body, 3); err == nil {
			require.Equal(t, m.body, packList(list))
		}
		decodeObject[map[string][]loss](m.body) // gob must return an error or decode, not crash
	})
}

func TestRankList(t *testing.T) {
	for want, ranks := range map[string][]int{"rank 3": {3}, "ranks 1, 2": {2, 1}, "ranks 0-2, 5": {5, 0, 1, 2}, "ranks 1, 3, 4": {1, 3, 4}} {
		assert.Equal(t, want, rankList(ranks))
	}
}
