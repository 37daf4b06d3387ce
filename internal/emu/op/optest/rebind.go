package optest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/op"
)

// verifyRebinding computes a call with an executor, and then, with the same executor, an equal call in
// other memory. Both give the same results. It leaves the tensors of the call as they are. Once of the
// call must be false.
func verifyRebinding(t testing.TB, name string, a Args, run func(*op.Executor) error) {
	t.Helper()
	o := op.Find(name)
	first, second := duplicated(t, o, a), duplicated(t, o, a)
	e, err := Prepare(t, name, first)
	require.NoError(t, err)
	if run(e) != nil {
		return
	}
	var want [][]byte
	for _, x := range touchedBy(e.Call) {
		want = append(want, x.copy())
	}
	require.NoError(t, e.Rebind(inOrder(t, o, second)))
	require.NoError(t, run(e), "aclnn%s with a rebound executor", name)
	for i, x := range touchedBy(e.Call) {
		if o.Use(x.name) != op.Read {
			require.True(t, bytes.Equal(want[i], x.copy()), "aclnn%s with a rebound executor computes another %s: %s",
				name, x.name, firstDifference(want[i], x.copy()))
		}
	}
}
