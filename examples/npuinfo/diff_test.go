package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifference(t *testing.T) {
	var text, object bytes.Buffer
	require.NoError(t, writeDifference(&text, options{diff: "Ascend910B1, Ascend310P3"}))
	for _, line := range []string{
		"Ascend910B1      Ascend310P3\n",
		"cube cores             24               8\n",
		"Unified Buffer         192 KiB          256 KiB\n",
		"bfloat16               yes              no\n",
		"    Abs self: only Ascend910B1 complex64 bfloat16\n",
		"are not on Ascend310P3: ",
	} {
		require.Contains(t, text.String(), line)
	}
	require.NoError(t, writeDifference(&object, options{diff: "Ascend910B1,Ascend310P3", json: true}))
	var d difference
	require.NoError(t, json.Unmarshal(object.Bytes(), &d))
	require.Equal(t, 48, d.Chips[0].VectorCores)
	require.NotEmpty(t, d.Missing[1])

	// Dies of one chip take the same.
	d, err := differ("Ascend910B1,Ascend910B4")
	require.NoError(t, err)
	require.Empty(t, d.Types)
	require.Empty(t, append(d.Missing[0], d.Missing[1]...))
	require.NotEqual(t, d.Chips[0].CubeCores, d.Chips[1].CubeCores)

	for _, names := range []string{"Ascend910B1", "Ascend910B1,Ascend1", "a,b,c"} {
		require.ErrorContains(t, writeDifference(&text, options{diff: names}), "known are")
	}
}
