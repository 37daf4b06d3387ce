package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, write(&b, table, []string{"Addmm", "Mm"}, []string{"aclrtMalloc"}))
	assert.Contains(t, b.String(), fmt.Sprintf("Operators: 2 of %d\n", len(table.Operators)))
	assert.Contains(t, b.String(), "| matmul | 2 | 48 | Addmm Mm |\n")
	assert.Contains(t, b.String(), "| pooling | 0 | 27 |  |\n")
	assert.Contains(t, b.String(), "Functions: 1 of 699\n")
	assert.Contains(t, b.String(), "| libascendcl | 1 | 538 | aclrtMalloc |\n")
}
