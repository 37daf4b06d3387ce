package acl_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

// TestMemoryOfAnotherProcess: a process writes to memory that another one shares, if it may.
func TestMemoryOfAnotherProcess(t *testing.T) {
	const variable, n = "CANN_TEST_SHARED_KEY", 3 << 16
	st := openStream(t)
	dev := st.Device()
	if key := os.Getenv(variable); key != "" {
		if key, refused := strings.CutPrefix(key, "refused "); refused {
			_, err := dev.Import(key, n)
			requireError(t, err, acl.ErrInvalidArgument, 107000)
			return
		}
		b, err := dev.Import(key, n)
		require.NoError(t, err)
		got := make([]byte, 4)
		require.NoError(t, acl.CopyFromDevice(background, st, got, b))
		require.Equal(t, []byte("ping"), got)
		require.NoError(t, acl.CopyToDevice(background, st, b, []byte("pong")))
		require.NoError(t, b.Close())
		require.ErrorIs(t, acl.CopyToDevice(background, st, b, []byte("late")), acl.ErrClosed)
		again, err := dev.Import(key, n)
		require.NoError(t, err, "the first import has ended")
		require.NoError(t, again.Close())
		return
	}
	b, err := dev.MallocDirect(n, acl.HugeFirst)
	require.NoError(t, err)
	require.NoError(t, acl.CopyToDevice(background, st, b, []byte("ping")))
	require.NoError(t, st.Synchronize(background))
	other := func(key string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMemoryOfAnotherProcess$")
		cmd.Env = append(os.Environ(), variable+"="+key)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	key, err := b.Share(os.Getpid())
	if errors.Is(err, acl.ErrNotSupported) {
		require.NoError(t, b.Close())
		t.Skip("this CANN version does not share memory: ", err)
	}
	require.NoError(t, err)
	other("refused " + key)
	key, err = b.Share()
	require.NoError(t, err)
	other(key)
	got := make([]byte, 4)
	require.NoError(t, acl.CopyFromDevice(background, st, got, b))
	require.Equal(t, []byte("pong"), got)
	require.NoError(t, b.Close())
	_, err = b.Share()
	require.ErrorIs(t, err, acl.ErrClosed)
}

// TestShareWhileAsking: Share is not in the way of another goroutine that asks the buffer for its bytes.
func TestShareWhileAsking(t *testing.T) {
	dev := openStream(t).Device()
	b, err := dev.MallocDirect(1<<17, acl.HugeFirst)
	require.NoError(t, err)
	defer func() { assert.NoError(t, b.Close()) }()
	asked := make(chan error)
	go func() {
		_, err := b.Bytes()
		asked <- err
	}()
	_, err = b.Share()
	require.ErrorIs(t, <-asked, acl.ErrNotSupported)
	if errors.Is(err, acl.ErrNotSupported) {
		t.Skip("this CANN version does not share memory: ", err)
	}
	require.NoError(t, err)
}

func TestShareRefusals(t *testing.T) {
	st := openStream(t)
	dev := st.Device()
	pooled := malloc(t, st, 1<<20)
	direct, err := dev.MallocDirect(1<<17, acl.HugeFirst)
	require.NoError(t, err)
	defer func() { assert.NoError(t, direct.Close()) }()
	view, err := direct.View(0, 1<<16)
	require.NoError(t, err)
	refused := map[string]*acl.Buffer{"of the cache": pooled, "a view": view}
	if managed, err := dev.MallocManaged(1 << 16); err == nil {
		defer func() { assert.NoError(t, managed.Close()) }()
		refused["managed"] = managed
	} else {
		require.ErrorIs(t, err, acl.ErrNotSupported, "this CANN is older")
	}
	for name, b := range refused {
		_, err := b.Share()
		assert.ErrorIs(t, err, acl.ErrInvalidArgument, name)
	}
	_, err = direct.Share(-1)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	if _, err := dev.Import("none", 16); errors.Is(err, acl.ErrNotSupported) {
		t.Skip("this CANN version does not share memory: ", err)
	}
	for _, key := range []string{"", "none", strings.Repeat("x", 65)} {
		_, err := dev.Import(key, 16)
		require.ErrorIs(t, err, acl.ErrInvalidArgument, key)
	}
	_, err = dev.Import("key", 0)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
}
