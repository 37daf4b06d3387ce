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
	assert.Regexp(t, `\n\| matmul \| 2 \| \d\d+ \| Addmm Mm \|\n`, b.String())
	assert.Regexp(t, `\n\| pooling \| 0 \| \d\d+ \|  \|\n`, b.String())
	assert.Contains(t, b.String(), fmt.Sprintf("Functions: 1 of %d\n", len(table.Functions)))
	assert.Regexp(t, `\n\| libascendcl \| 1 \| \d\d\d \| aclrtMalloc \|\n`, b.String())
}
