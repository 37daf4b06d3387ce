package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/npuinfo/smoke"
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
	require.Len(t, back.Libraries, 11)
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
	require.NotContains(t, text.String(), "toolkit:")
	require.Contains(t, text.String(), "device 0: Ascend910B1")
	require.Contains(t, text.String(), "    card 0 chip 0: alarm none, cores ")
}

// TestMain is the program when it is started for a part.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-part" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSmoke writes a report of one case, with its parts in processes of their own, and of a toolkit that
// lacks kernels.
func TestSmoke(t *testing.T) {
	if !inEmulator(t) {
		t.Skip("the results of a device are not those of a test")
	}
	if _, err := smoke.GoldenFolder(); err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "day1")
	var out bytes.Buffer
	o := options{try: tryOptions{smoke: true, report: name, only: "golden:rms", limit: time.Minute, toolkit: "smoke/testdata/opp/built-in"}}
	require.NoError(t, run(t.Context(), o, &out, t.Output()))
	require.Contains(t, out.String(), "toolkit: 9 kernels for ascend910b")
	require.Regexp(t, `ok +rms/f32\|float32\|rms_norm\|RmsNorm`, out.String())
	require.Regexp(t, `ok +rms/f32\|bfloat16\|rms_norm_grad\|`, out.String())
	require.Contains(t, out.String(), "0 problems")
	text, err := os.ReadFile(name + ".txt")
	require.NoError(t, err)
	require.Contains(t, string(text), "foreseen refused")
	object, err := os.ReadFile(name + ".json")
	require.NoError(t, err)
	var back report
	require.NoError(t, json.Unmarshal(object, &back))
	require.NotEmpty(t, back.Smoke.Results)
	require.NotEmpty(t, back.Foreseen)

	o.try.only = "none" // nothing is tried, and the missing reference data is a problem
	t.Setenv("CANN_GOLDEN_DIR", t.TempDir())
	out.Reset()
	require.ErrorContains(t, run(t.Context(), o, &out, t.Output()), "1 results are bad")
	require.Contains(t, out.String(), "problem: ")
}

func inEmulator(t *testing.T) bool {
	t.Helper()
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return false
	}
	defer func() { require.NoError(t, rt.Close()) }()
	return rt.Emulated()
}

func TestFlags(t *testing.T) {
	o, err := parseFlags([]string{"-json", "-missing"}, t.Output())
	require.NoError(t, err)
	require.True(t, o.json && o.missing && !o.try.smoke)
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
