package cost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/cost"
	"github.com/goascend/cann/examples/model"
)

// seed is the training that the xtuner pull request "GMM NZ for training" was measured with: Qwen3-235B-A22B
// with sequences of 32k on 512 dies of Atlas A3, without expert parallelism. A card has two dies.
func seed(t *testing.T, f cost.Format) (cost.Run, cost.Chip) {
	cfg, err := model.ReadConfig("testdata/qwen3-235b/config.json")
	require.NoError(t, err)
	chip, err := cost.ChipOf("Ascend910_9391")
	require.NoError(t, err)
	return cost.Run{Config: cfg, Devices: 512, Tokens: 32768, ElementBytes: 2, Format: f}, chip
}

func step(t *testing.T, f cost.Format) cost.Step {
	run, chip := seed(t, f)
	s, err := run.On(chip)
	require.NoError(t, err)
	return s
}

// TestSeed compares the estimate with what was measured, tokens a second and card: 2050 before, 2140 with
// FRACTAL_NZ weights. From bytes follow 2.0 % of the 4.4 %; the pull request itself speaks of 2 %. The order in
// which shards keep weights adds nothing to this, as a transposed view of a weight moves no bytes: what it spares is
// the transposed gradient, which is counted. The rest would be products that are 6 % slower with ND weights, for
// which there is no source.
func TestSeed(t *testing.T) {
	const before, after, dies = 2050, 2140, 2
	nd, nz := step(t, cost.Transposed), step(t, cost.NZ)
	t.Logf("%.0f → %.0f tokens/s a card (%+.1f %%); measured %d → %d (%+.1f %%)", dies*nd.TokensPerSecond(), dies*nz.TokensPerSecond(),
		100*(nd.Seconds()/nz.Seconds()-1), before, after, 100*(float64(after)/before-1))
	require.InEpsilon(t, before, dies*nd.TokensPerSecond(), 0.10)
	require.InEpsilon(t, after, dies*nz.TokensPerSecond(), 0.10)
	require.InDelta(t, 1.0195, nd.Seconds()/nz.Seconds(), 0.003)

	run, chip := seed(t, cost.Transposed)
	slow, err := run.Explain(chip, nz, float64(after)/before)
	require.NoError(t, err)
	t.Logf("products with ND weights would have to be %.1f %% slower", 100*slow)
	require.InDelta(t, 0.06, slow, 0.01)
	run.Slowdown = slow
	explained, err := run.On(chip)
	require.NoError(t, err)
	require.InEpsilon(t, float64(after)/before, explained.Seconds()/nz.Seconds(), 1e-9)
	run.Format = cost.NZ
	same, err := run.On(chip)
	require.NoError(t, err)
	require.Equal(t, nz, same, "products that read NZ weights have no slowdown")
	_, err = run.Explain(chip, nz, 2)
	require.ErrorContains(t, err, "no product")
}

// TestTerms checks the bytes of one format against those of another: 94 layers with 4.5 GiB of experts each.
func TestTerms(t *testing.T) {
	const experts = 94 * 4.5 * (1 << 30)
	nd, nz, cast, transposed := step(t, cost.ND), step(t, cost.NZ), step(t, cost.Cast), step(t, cost.Transposed)
	require.Equal(t, nd.Seconds(), nz.Seconds(), "the operator that slices and converts moves what a copy moves")
	require.Equal(t, 2*2*experts, cast.Term(cost.CastOver).Bytes)
	require.Equal(t, 2*experts, transposed.Term(cost.Transpose).Bytes)
	for _, s := range []cost.Step{nd, nz, cast, transposed} {
		require.InEpsilon(t, 2*2*(2*235.1e9-151936*4096), s.Term(cost.CopyOut).Bytes, 1e-3)
		require.InEpsilon(t, 28*235.1e9/512, s.Term(cost.Optimiser).Bytes, 1e-3)
		require.InEpsilon(t, 3*2*235.1e9, s.Term(cost.Exchange).Bytes, 3e-3)
		require.Zero(t, s.Term(cost.Exchange).Seconds, "it is done beside the products")
		sum := 0.0
		for _, term := range s.Terms {
			sum += term.Seconds
		}
		require.Equal(t, sum, s.Seconds())
	}
	require.InEpsilon(t, 6*21.57e9*32768/(353.9e12*0.455), nd.Term(cost.Products).Seconds, 2e-3)
}

// TestLimits: a narrow link shows when products do not hide it, one device exchanges nothing, and each number of
// the chip counts.
func TestLimits(t *testing.T) {
	run, chip := seed(t, cost.NZ)
	whole, err := run.On(chip)
	require.NoError(t, err)
	chip.Link = 25e9
	slow, err := run.On(chip)
	require.NoError(t, err)
	exchanged := slow.Term(cost.Exchange)
	require.InEpsilon(t, exchanged.Bytes/25e9-slow.Term(cost.Products).Seconds, exchanged.Seconds, 1e-9)
	require.Less(t, slow.TokensPerSecond(), whole.TokensPerSecond())
	run.Devices = 1
	alone, err := run.On(chip)
	require.NoError(t, err)
	require.Zero(t, alone.Term(cost.Exchange).Bytes)
	chip.Memory /= 2
	half, err := run.On(chip)
	require.NoError(t, err)
	require.InEpsilon(t, 2*alone.Term(cost.CopyOut).Seconds, half.Term(cost.CopyOut).Seconds, 1e-9)

	run.Tokens = 0
	_, err = run.On(chip)
	require.ErrorContains(t, err, "must be positive")
	run.Tokens, chip.Peak = 1, 0
	_, err = run.On(chip)
	require.ErrorContains(t, err, "must be positive")
	_, err = cost.ChipOf("Ascend310P3")
	require.ErrorContains(t, err, "Ascend910B2")

	plain, err := cost.ParseChip("Ascend910B2")
	require.NoError(t, err)
	other, err := cost.ParseChip("Ascend910B2,link=196e9,peak=3e14,memory=1.2e12,efficiency=0.4")
	require.NoError(t, err)
	require.Equal(t, cost.Chip{Name: plain.Name, Peak: 3e14, Efficiency: 0.4, Memory: 1.2e12, Link: 196e9}, other)
	for _, text := range []string{"Ascend910B2,", "Ascend910B2,link", "Ascend910B2,link=0", "Ascend910B2,link=Inf", "Ascend910B2,speed=1", "Ascend31,link=1"} {
		_, err := cost.ParseChip(text)
		require.ErrorContains(t, err, "cost: ", text)
	}
}
