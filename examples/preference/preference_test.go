package preference_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/preference"
)

// TestFactors compares the derivatives with differences of the loss, also where a sigmoid is 0 or 1.
func TestFactors(t *testing.T) {
	own, reference := []float64{-12, -9, -30, -31.5, -3, -900, -900, -3}, []float64{-11, -10, -28, -33, -3, -4, -4, -3}
	for _, d := range []preference.DPO{{Beta: 0.1}, {Beta: 2, LabelSmoothing: 0.2}, {Beta: 0.3, SFTWeight: 0.7}} {
		slopes(t, own, func(v []float64) preference.Result { return d.Compare(v, reference, 40) })
	}
	slopes(t, []float64{1, 2, -0.5, -3, 80, -700}, func(v []float64) preference.Result { return preference.Rewards(v, []float64{0, 1, 0.5}) })
	r := preference.Rewards([]float64{1, 2, -0.5, -3}, nil)
	require.InDelta(t, 0.5, r.Accuracy, 0)
	require.InDelta(t, 0.75, r.Margin, 1e-15)
	require.InDelta(t, 0.25, r.Chosen, 1e-15)
	require.InDelta(t, -0.5, r.Rejected, 1e-15)
}

func slopes(t *testing.T, values []float64, of func([]float64) preference.Result) {
	const step = 1e-5
	r := of(values)
	require.False(t, math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0))
	for i, v := range values {
		values[i] = v + step
		up := of(values).Loss
		values[i] = v - step
		down := of(values).Loss
		values[i] = v
		require.InDelta(t, (up-down)/(2*step), r.Factors[i], 1e-7, "value %d", i)
	}
}

func TestChecks(t *testing.T) {
	require.NoError(t, preference.DPO{Beta: 0.1}.Check())
	for _, d := range []preference.DPO{{}, {Beta: math.Inf(1)}, {Beta: math.NaN()}, {Beta: 1, LabelSmoothing: 0.5}, {Beta: 1, LabelSmoothing: -0.1}, {Beta: 1, SFTWeight: -1}} {
		require.Error(t, d.Check(), "%+v", d)
	}
}
