package abi_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// The list names parameters of the table that can be null, each function once and in order.
func TestNullCode(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	text, err := os.ReadFile("nulls.txt")
	require.NoError(t, err)
	last, n := "", 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		assert.Contains(t, []string{"100000", "161001", "561103"}, fields[0], line)
		name := fields[1]
		assert.Less(t, last, name)
		last = name
		i := slices.IndexFunc(table.Functions, func(f abi.Function) bool { return f.Name == name })
		if i < 0 { // newer than the table
			continue
		}
		for _, parameter := range fields[2:] {
			at := slices.IndexFunc(table.Functions[i].Params, func(p abi.Param) bool { return p.Name == parameter })
			assert.GreaterOrEqual(t, at, 0, "%s has no parameter %s", name, parameter)
			code, known := abi.NullCode(name, parameter)
			assert.True(t, known && code != 0, line)
			n++
		}
	}
	assert.Greater(t, n, 300)
	for _, c := range []struct {
		function, parameter string
		code                int64
		known               bool
	}{
		{"aclrtStreamWaitEvent", "event", abi.ACL_ERROR_INVALID_PARAM, true},
		{"aclrtStreamWaitEvent", "stream", 0, true}, // the default stream
		{"aclrtDeviceCanAccessPeer", "canAccessPeer", 0, true},
		{"aclSetTensorAddr", "tensor", abi.ACLNN_ERR_INNER_NULLPTR, true},
		{"aclnnAdd", "executor", 0, false},
	} {
		code, known := abi.NullCode(c.function, c.parameter)
		assert.Equal(t, c.code, code, c)
		assert.Equal(t, c.known, known, c)
	}
}
