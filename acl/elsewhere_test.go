//go:build !(linux && cgo && (amd64 || arm64))

package acl_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

// TestOpenElsewhere: where there can be no CANN, with the tag emu or without, Open says so and
// says what to do.
func TestOpenElsewhere(t *testing.T) {
	_, err := acl.Open(acl.Config{})
	require.ErrorIs(t, err, acl.ErrNotInstalled)
	var missing *cshim.LibraryError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, cshim.ACL, missing.Library)
	for _, part := range []string{runtime.GOOS + "/" + runtime.GOARCH, "need Linux on amd64 or arm64, and cgo", "in a Linux container, with CGO_ENABLED=1"} {
		require.ErrorContains(t, err, part)
	}
	require.Empty(t, acl.Live())

	_, err = cshim.Opened(cshim.Op)
	require.ErrorAs(t, err, &missing)
	require.ErrorAs(t, (&cshim.Operator{Symbol: "aclnnAdd"}).Available(), &missing)
}
