package labels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/internal/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

func copied[T acl.Element](t *testing.T, st *acl.Stream, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	x, err := aclnn.New(st, dt, shape...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	require.NoError(t, aclnn.CopyToDevice(t.Context(), st, x, values))
	return x
}

func read[T acl.Element](t *testing.T, st *acl.Stream, x *aclnn.Tensor) []T {
	values := make([]T, x.Len())
	require.NoError(t, aclnn.CopyFromDevice(t.Context(), st, values, x))
	return values
}

// Rows 1 and 4 are ignored, even where the ignored index is a class; row 3 has a label that is no
// class.
const ignored = 2

var ids = []int32{0, ignored, 1, 9, ignored}

func TestMatch(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	of := copied(t, st, aclnn.Int32, ids, 5)
	s := &aclnn.Scope{Stream: st}
	defer func() { require.NoError(t, s.Close()) }()
	counted := labels.Counted(s, of, ignored)
	equal, other := labels.Match(s, of, ignored, 3, true), labels.Match(s, of, ignored, 3, false)
	filled := copied(t, st, aclnn.Float32, make([]float32, 15), 5, 3)
	labels.Fill(s, filled, equal, aclnn.Float(7))
	n := copied(t, st, aclnn.Float32, []float32{-1}, 1)
	labels.Count(s, of, ignored, n)
	require.NoError(t, s.Err())

	require.Equal(t, []bool{true, false, true, true, false}, read[bool](t, st, counted))
	want := make([]bool, 15)
	want[0*3+0], want[2*3+1] = true, true
	require.Equal(t, want, read[bool](t, st, equal))
	for i, differs := range read[bool](t, st, other) {
		require.Equal(t, !want[i], differs, "element %d", i)
	}
	for i, v := range read[float32](t, st, filled) {
		require.Equal(t, want[i], v == 7, "element %d", i)
	}
	require.Equal(t, []float32{3}, read[float32](t, st, n))
}

// The gradient of the mean cross-entropy is the softmax minus one at the label, over the number of
// rows that count.
func TestGradient(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	probabilities := []float32{.5, .25, .25, .2, .3, .5, .1, .6, .3, .4, .4, .2, .7, .2, .1}
	logs := make([]float32, len(probabilities))
	for i, p := range probabilities {
		logs[i] = float32(math.Log(float64(p)))
	}
	logProb, loss := copied(t, st, aclnn.Float32, logs, 5, 3), copied(t, st, aclnn.Float32, []float32{6})
	for name, c := range map[string]struct {
		ids   []int32
		count float64 // what the mean divides by
	}{
		"some rows": {ids, 3}, "no row": {[]int32{ignored, ignored, ignored, ignored, ignored}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &aclnn.Scope{Stream: st}
			got := copied(t, st, aclnn.Float32, make([]float32, 15), 5, 3)
			labels.Gradient(s, loss, logProb, copied(t, st, aclnn.Int32, c.ids, 5), ignored, got)
			require.NoError(t, s.Err())
			for i, v := range read[float32](t, st, got) {
				want, label := 0.0, int(c.ids[i/3])
				if label != ignored {
					want = float64(probabilities[i])
					if label == i%3 {
						want--
					}
				}
				require.InDelta(t, 6*want/c.count, v, 1e-5, "element %d", i)
			}
			require.NoError(t, s.Close())
		})
	}
}
