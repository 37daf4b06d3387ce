package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// The entrance of a C function refuses null pointers before it looks at another argument, here at handles that are
// none.
func TestNullPointers(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	s := newSurface(t, table, 0)
	defer s.close()
	checked := 0
	for _, f := range table.Functions {
		for i, p := range f.Params {
			code, _ := abi.NullCode(f.Name, p.Name)
			if code == 0 || s.m.calls[id(t, f.Name)] == nil {
				continue
			}
			words := make([]uint64, len(f.Params))
			for k := range words {
				words[k] = s.clear(k)
			}
			words[i] = 0
			assert.EqualValues(t, code, s.named(f.Name, words...), "%s with null %s", f.Name, p.Name)
			checked++
		}
	}
	require.Greater(t, checked, 250)
}
