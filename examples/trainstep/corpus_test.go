package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzTokenCorpus reads any file as tokens and draws windows from it.
func FuzzTokenCorpus(f *testing.F) {
	f.Add([]byte{1, 0, 2, 0, 3, 0, 4, 0}, uint64(1), uint8(2), uint8(2))
	f.Add([]byte{1}, uint64(0), uint8(0), uint8(1))
	f.Add([]byte{0xff, 0xff, 0, 0}, uint64(7), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, size, length uint8) {
		c, err := tokenCorpus(data, "a file")
		if err != nil {
			require.Equal(t, 1, len(data)%2)
			return
		}
		require.Len(t, c.tokens, len(data)/2)
		for i, token := range c.tokens {
			require.Equal(t, binary.LittleEndian.Uint16(data[2*i:]), uint16(token))
			require.Less(t, int(token), c.vocab)
		}
		inputs, labels, err := c.batch(seed, 3, 0, int(size), int(length))
		if err != nil {
			require.Less(t, len(c.tokens), int(length)+2)
			return
		}
		require.Len(t, inputs, int(size)*int(length))
		require.Len(t, labels, len(inputs))
		for i := range inputs {
			if i%int(length) != 0 {
				require.Equal(t, inputs[i], labels[i-1], "labels are the inputs one token later")
			}
		}
		again, _, err := c.batch(seed, 3, 0, int(size), int(length))
		require.NoError(t, err)
		require.Equal(t, inputs, again)
		half := int(size) / 2
		rest, _, err := c.batch(seed, 3, half, int(size), int(length))
		require.NoError(t, err)
		require.Equal(t, inputs[half*int(length):], append([]int32(nil), rest...), "a rank's part")
	})
}
