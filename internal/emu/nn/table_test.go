package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every entry of the tables of CANN's own operators is in its C interface.
func TestTablesNameOperators(t *testing.T) {
	for name := range merge(unary, binaries, activations, moving, filling, reductions, cumulatives, foreachTable) {
		assert.NotNil(t, find(name), "aclnn%s", name)
	}
}
