package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

// TestReport: with the emulator nothing is missing; without CANN the report says so and what
// was tried, and is no error.
func TestReport(t *testing.T) {
	r, err := inspect()
	require.NoError(t, err)
	require.Empty(t, acl.Live())
	var text, object bytes.Buffer
	require.NoError(t, r.write(&text, false, true))
	require.NoError(t, r.write(&object, true, false))
	var back report
	require.NoError(t, json.Unmarshal(object.Bytes(), &back))
	require.Len(t, back.Libraries, len(cshim.Libraries()))
	if !cshim.Emulated || os.Getenv("CANN_EMU_API") != "" { // an older interface lacks functions
		return
	}
	require.Empty(t, r.Runtime.Error)
	require.NotEmpty(t, r.Devices)
	for _, l := range r.Libraries {
		require.Empty(t, l.Missing, l.Name)
		require.NotZero(t, l.Functions, l.Name)
	}
	require.Contains(t, text.String(), "grouped_matmul: GroupedMatmulV5")
	require.Contains(t, text.String(), "device 0: Ascend910B1")
}
