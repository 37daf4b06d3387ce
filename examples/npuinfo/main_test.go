package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

// TestReport checks that the emulator lacks nothing, and that without CANN the report lists the
// paths tried instead of failing.
func TestReport(t *testing.T) {
	r, err := inspect()
	require.NoError(t, err)
	require.Empty(t, acl.Live())
	var text, object bytes.Buffer
	require.NoError(t, r.write(&text, options{missing: true}))
	require.NoError(t, r.write(&object, options{json: true}))
	var back report
	require.NoError(t, json.Unmarshal(object.Bytes(), &back))
	require.Equal(t, r, &back)
	require.Len(t, back.Libraries, 7)
	if !r.Runtime.Emulated || os.Getenv("CANN_EMU_API") != "" { // an older interface lacks functions
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

func TestFlags(t *testing.T) {
	o, err := parseFlags([]string{"-json", "-missing"}, t.Output())
	require.NoError(t, err)
	require.Equal(t, options{json: true, missing: true}, o)
	_, err = parseFlags([]string{"devices"}, t.Output())
	require.ErrorContains(t, err, `unknown argument "devices"`)
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/npuinfo")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}
