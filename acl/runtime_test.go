package acl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/cshim"
)

func TestWithoutCANN(t *testing.T) {
	rt, err := acl.Open(acl.Config{})
	if err == nil {
		require.NoError(t, rt.Close())
		t.Skip("CANN is installed")
	}
	require.ErrorIs(t, err, acl.ErrNotInstalled)
	var missing *cshim.LibraryError
	require.ErrorAs(t, err, &missing)
	assert.NotEmpty(t, missing.Tried)
	assert.Contains(t, err.Error(), "libascendcl.so")
	assert.Contains(t, err.Error(), "set_env.sh")
	assert.Empty(t, acl.Live())
}

func TestOpenTwice(t *testing.T) {
	rt := acltest.Open(t)
	again, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	assert.Equal(t, 2, acl.Live()[acl.KindRuntime])
	require.NoError(t, again.Close())
	require.NoError(t, again.Close())
	_, err = again.DeviceCount()
	requireError(t, err, acl.ErrClosed, 0)
	_, err = again.Version()
	requireError(t, err, acl.ErrClosed, 0)
	_, err = again.CANNVersion()
	requireError(t, err, acl.ErrClosed, 0)
	_, err = again.Device(0)
	requireError(t, err, acl.ErrClosed, 0)
	n, err := rt.DeviceCount()
	require.NoError(t, err)
	assert.Positive(t, n)
}

func TestOneConfigurationPerProcess(t *testing.T) {
	acltest.Open(t)
	file := filepath.Join(t.TempDir(), "acl.json")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	_, err := acl.Open(acl.Config{File: file})
	e := requireError(t, err, acl.ErrInvalidArgument, 0)
	assert.Contains(t, e.Message, file)
}

func TestVersions(t *testing.T) {
	rt := acltest.Open(t)
	v, err := rt.Version()
	require.NoError(t, err)
	assert.Equal(t, 1, v.Major)
	assert.Regexp(t, `^1\.\d+\.\d+$`, v.String())
	cann, err := rt.CANNVersion()
	require.NoError(t, err)
	assert.NotEmpty(t, cann)
	assert.Regexp(t, "^Ascend", rt.SoC())
}
