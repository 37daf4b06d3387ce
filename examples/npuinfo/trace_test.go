package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(`[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"device 0"}},
{"name":"aclnnSort","cat":"host","ph":"X","ts":1,"pid":0,"tid":7},
{"name":"aclnnSort","cat":"stream","ph":"X","ts":1,"pid":1,"tid":2,"args":{"aicpu":"Sort of int32"}},
{"name":"aclnnSort","cat":"stream","ph":"X","ts":2,"pid":1,"tid":2,"args":{"aicpu":"Sort of int32","types":"self:int32"}},
{"name":"aclnnAdd","cat":"stream","ph":"X","ts":3,"pid":1,"tid":2},
{"name":"aclrtMalloc","cat":"host","ph":"X","t`)
	r, err := readTrace(path, "none")
	require.NoError(t, err)
	require.Equal(t, 3, r.Calls)
	require.Equal(t, []leaving{{"aclnnSort", "Sort of int32", 2}}, r.Leaving)
	var text, object bytes.Buffer
	require.NoError(t, writeTrace(&text, options{trace: path, try: tryOptions{toolkit: "none"}}))
	require.Equal(t, "aclnnSort leaves the AI Core: Sort of int32, 2 times\n3 calls of operators, of which 1 kinds leave the AI Core of a 910B\n", text.String())
	require.NoError(t, writeTrace(&object, options{trace: path, json: true, try: tryOptions{toolkit: "none"}}))
	require.Contains(t, object.String(), `"calls": 2`)
	text.Reset()
	require.NoError(t, writeTrace(&text, options{trace: path, try: tryOptions{toolkit: "smoke/testdata/opp/built-in"}}))
	require.Contains(t, text.String(), "foreseen ai cpu   Sort(self:int32): Sort of int32 is on the AI CPU alone")
	write("something else")
	require.ErrorContains(t, writeTrace(&text, options{trace: path, try: tryOptions{toolkit: "none"}}), "no trace of the emulator")
	require.ErrorIs(t, writeTrace(&text, options{trace: path + "x"}), os.ErrNotExist)
}
