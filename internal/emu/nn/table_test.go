package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every operator that is implemented is in the C interface.
func TestTablesNameOperators(t *testing.T) {
	for name := range implementations {
		assert.NotNil(t, find(name), "aclnn%s", name)
	}
}
