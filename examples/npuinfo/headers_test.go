package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

// TestHeaders compares a header that has one function as CANN 8.5 had it, one of CANN 9.1, and a wrong one.
func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "acl"), 0o755))
	text := "aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);\naclError aclrtSnapShotProcessLock();\naclError aclrtNobodyKnows(int);\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "acl", "acl_rt.h"), []byte(text), 0o644))

	var out bytes.Buffer
	require.NoError(t, writeHeaders(&out, options{headers: dir, release: "9.0.0", json: true}))
	var r acl.HeaderReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Equal(t, 2, r.Equal)
	require.Equal(t, []string{"aclrtNobodyKnows"}, r.Unknown)
	require.Contains(t, r.Missing, "aclrtFree")
	require.NotContains(t, r.Missing, "aclrtRecordEventWithFlag", "of CANN 9.2")

	out.Reset()
	require.ErrorContains(t, writeHeaders(&out, options{headers: dir, release: "9.1.0"}), "1 declarations in "+dir+" differ from CANN 9.1.0")
	require.Contains(t, out.String(), "CANN 9.1.0: 1 functions, 0 constants, 0 types and 0 records agree, ")
	require.Regexp(t, `(?m)^ +1 +\d+ +1 +1 +0 +acl/acl_rt.h$`, out.String())
	require.Regexp(t, `(?m)^ +agree +missing +different +lacking +not compared +header$`, out.String())
	require.NotContains(t, out.String(), "aclnnop", "the folder has no operators")
	require.Contains(t, out.String(), "different aclrtSnapShotProcessLock: the table has (int, void *), the header ()")
	require.ErrorContains(t, writeHeaders(&out, options{headers: dir, release: "2026-08"}), "known are 8.1.RC1, 8.5.0, 9.0.0, 9.1.0, 9.2.0-beta.1")
	require.Error(t, writeHeaders(&out, options{headers: t.TempDir(), release: "9.1.0"}), "no headers of CANN")
	_, err := parseFlags([]string{"-release", "9.0.0"}, &out)
	require.ErrorContains(t, err, "-release needs -headers")
}
