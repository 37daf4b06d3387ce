package acltest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// recorder is a test that the test looks at.
type recorder struct {
	testing.TB
	cleanups []func()
	said     []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(a ...any)            { r.said = append(r.said, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.said = append(r.said, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); panic(r) }
func (r *recorder) Skip(a ...any)             { r.Error(a...); panic(r) }
func (r *recorder) Skipf(f string, a ...any)  { r.Errorf(f, a...); panic(r) }

// ends runs a test and returns what it said.
func ends(t *testing.T, test func(t testing.TB)) []string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if e := recover(); e != nil && e != r {
				panic(e)
			}
		}()
		test(r)
	}()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.said
}

func TestEverythingCloses(t *testing.T) {
	acltest.Need(t)
	require.Empty(t, ends(t, func(t testing.TB) {
		st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
		assert.Equal(t, 1, acl.Live()[acl.KindStream])
		b, err := st.Malloc(10)
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}))
	assert.Zero(t, acl.Live()[acl.KindStream])
}

func TestLeak(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	var left []*acl.Buffer
	said := ends(t, func(t testing.TB) {
		acltest.NoLeaks(t)
		for range 2 {
			b, err := st.Malloc(10)
			require.NoError(t, err)
			left = append(left, b)
		}
	})
	require.Equal(t, []string{"the test left open: 2 of kind buffer"}, said)
	require.Empty(t, ends(t, func(t testing.TB) { acltest.NoLeaks(t) }), "of an earlier test")
	for _, b := range left {
		require.NoError(t, b.Close())
	}
}

func TestNoSuchDevice(t *testing.T) {
	rt := acltest.Open(t)
	n, err := rt.DeviceCount()
	require.NoError(t, err)
	said := ends(t, func(t testing.TB) { acltest.Device(t, rt, n) })
	require.Equal(t, []string{fmt.Sprintf("device %d is needed, there are %d", n, n)}, said)
}

// TestWithoutCANN: the runtime of an empty folder is none, and a test that needs one says so.
func TestWithoutCANN(t *testing.T) {
	if rt, err := acl.Open(acl.Config{}); err == nil {
		require.NoError(t, rt.Close())
		t.Skip("CANN is installed")
	}
	said := ends(t, func(t testing.TB) { acltest.Open(t) })
	require.Len(t, said, 1)
	require.Contains(t, said[0], "libascendcl.so")
}

func TestRerun(t *testing.T) {
	for name, variable := range map[string]string{"one": "ACLTEST=1", "a/b (c)": "ACLTEST=2"} {
		t.Run(name, func(t *testing.T) {
			pid := os.Getpid()
			acltest.Rerun(t, func(t *testing.T) {
				require.Equal(t, strings.TrimPrefix(variable, "ACLTEST="), os.Getenv("ACLTEST"))
				require.NotZero(t, pid)
			}, variable)
			if os.Getenv("ACLTEST") == "" {
				require.Equal(t, pid, os.Getpid())
			}
		})
	}
	t.Run("skips", func(t *testing.T) {
		defer func() {
			if os.Getenv("ACLTEST") == "" {
				assert.True(t, t.Skipped())
			}
		}()
		acltest.Rerun(t, func(t *testing.T) { t.Skip("as planned") }, "ACLTEST=3")
	})
}

func TestFaults(t *testing.T) {
	acltest.Faults(t, "aclrtCreateStreamWithConfig:2=207008", func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		acltest.Stream(t, dev)
		_, err := dev.NewStream()
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, acl.Code(207008), e.Code)
		acltest.Stream(t, dev)
	})
}

// TestOutOfMemory is the test of Faults' documentation.
func TestOutOfMemory(t *testing.T) {
	acltest.Faults(t, "aclrtMallocAlign32=207001", func(t *testing.T) {
		st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
		_, err := st.Malloc(1 << 20)
		if !errors.Is(err, acl.ErrOutOfMemory) {
			t.Error(err)
		}
	})
}

// TestRerunFails: what fails in the other process fails the test, with what was printed there.
func TestRerunFails(t *testing.T) {
	const variable = "ACLTEST_FAILS"
	if os.Getenv(variable) != "" {
		acltest.Rerun(t, func(t *testing.T) { t.Error("as planned") }, "ACLTEST=4")
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program, "-test.run=^TestRerunFails$")
	c.Env = append(os.Environ(), variable+"=1")
	out, err := c.CombinedOutput()
	require.Error(t, err)
	for _, part := range []string{"with ACLTEST=4: exit status 1", "as planned", "--- FAIL: TestRerunFails"} {
		require.Contains(t, string(out), part)
	}
}
