package acl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/acl"
)

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := acl.KindRuntime; k <= acl.KindGraph; k++ {
		assert.NotEmpty(t, k.String())
		assert.False(t, seen[k.String()])
		seen[k.String()] = true
	}
}
