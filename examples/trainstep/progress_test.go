package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		true:  "\rloss 10.5\rloss 9.5 \rloss 8  \nend",
		false: "loss 10.5\nloss 9.5\nloss 8\nend",
	} {
		var out bytes.Buffer
		p := progress{out: &out, terminal: terminal}
		p.show("loss %v", 10.5)
		p.show("loss %v", 9.5)
		p.show("loss %v", 8)
		p.end()
		p.end()
		out.WriteString("end")
		require.Equal(t, want, out.String())
	}
}

func TestIsTerminal(t *testing.T) {
	require.False(t, isTerminal(new(bytes.Buffer)))
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	require.False(t, isTerminal(file))
	require.NoError(t, file.Close())
	require.False(t, isTerminal(file), "closed")
	device, err := os.Open(os.DevNull) // a character device, as terminals are
	require.NoError(t, err)
	require.True(t, isTerminal(device))
	require.False(t, isTerminal(plain{device}), "of a rank that a launcher has started")
	require.NoError(t, device.Close())
}
