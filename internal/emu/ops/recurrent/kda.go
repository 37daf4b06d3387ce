package recurrent

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kda"
	"github.com/goascend/cann/internal/emu/op"
)

// kimi lists the operators of Kimi delta attention.
var kimi = op.Table{"RecurrentKda": recurrentKda, "KdaGateCumsum": kdaGateCumsum}.Selects("RecurrentKda")

// required returns a tensor that must be given. These operators answer 161002 for a null one.
func required(c *op.Call, name string) *op.Tensor {
	if t := c.Optional(name); t != nil {
		return t
	}
	c.Invalid("%s is null", name)
	return &op.Absent
}

// gates reads how raw gates of heads with n channels become logarithms of decays. The function, for Run,
// returns the gate of each head, or nil if the gates are logarithms already.
func gates(c *op.Call, heads, n int64) func() ([]kda.Gate, error) {
	rate, bias := c.Optional("aLogOptional"), c.Optional("dtBiasOptional")
	if !c.Bool("useGateInKernel") {
		return func() ([]kda.Gate, error) { return nil, nil }
	}
	lower := 0.0
	if c.Bool("safeGate") {
		if lower = c.Float("lowerBound"); !(lower >= -5 && lower < 0) {
			c.Invalid("lowerBound is %g; with safeGate it must be at least -5 and below 0", lower)
		}
	}
	if rate == nil {
		c.Invalid("aLogOptional is null; gates in the kernel need it")
		return nil
	}
	c.Plain(rate)
	c.DType(rate, dtype.Float32)
	c.Shape(rate, []int64{heads}, "one for each value head")
	if bias != nil {
		c.Plain(bias)
		c.DType(bias, dtype.Float32)
		if !c.Has("layout") || bias.Rank() != 2 {
			c.Shape(bias, []int64{heads * n}, "one for each channel of a head")
		} else {
			c.Shape(bias, []int64{heads, n}, "one for each channel of a head")
		}
	}
	return func() ([]kda.Gate, error) {
		rates, err := elementwise.Doubles(rate.View())
		if err != nil {
			return nil, err
		}
		all := make([]kda.Gate, heads)
		for h := range all {
			all[h] = kda.Gate{Rate: math.Exp(rates[h]), Lower: lower}
		}
		if bias != nil {
			values, err := elementwise.Doubles(bias.View())
			if err != nil {
				return nil, err
			}
			for h := range all {
				all[h].Bias = values[int64(h)*n:][:n]
			}
		}
		return all, nil
	}
}

// kdaGateCumsum sums the logarithms of decays g [B, H, T, K] or [H, T, K], to the base 2, within chunks of
// each sequence.
func kdaGateCumsum(c *op.Call) (op.Run, error) {
	g, out := required(c, "g"), required(c, "gkOut")
	chunk, bounds := c.Int("chunkSize"), c.Ints("cuSeqlensOptional")
	if chunk != 32 && chunk != 64 && chunk != 128 {
		c.Invalid("chunkSize is %d; use 32, 64 or 128", chunk)
	}
	c.Plain(g, out)
	c.Rank(g, 3, 4)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.DType(g, op.FloatTypes...)
	c.DType(out, dtype.Float32)
	c.SameShape(g, out)
	heads, t, n := g.Dim(-3), g.Dim(-2), g.Dim(-1)
	if n > 256 {
		c.Invalid("%v has %d channels; at most 256 are supported", g, n)
	}
	if bounds == nil {
		bounds = []int64{0, t}
	} else if len(bounds) < 2 || bounds[0] != 0 || bounds[len(bounds)-1] != t || !slices.IsSorted(bounds) || g.Rank() == 4 && g.Dim(0) != 1 {
		c.Invalid("cuSeqlensOptional is %s; it must not fall from 0 to the %d tokens of a single batch", op.Dims(bounds), t)
	}
	gate := gates(c, heads, n)
	return func(*op.Exec) error {
		all, err := gate()
		if err != nil {
			return err
		}
		values, err := elementwise.Doubles(g.View())
		if err != nil {
			return err
		}
		for first := int64(0); first < int64(len(values)); first += t * n {
			for s := range len(bounds) - 1 {
				for i := bounds[s]; i < bounds[s+1]; i++ {
					row := values[first+i*n:][:n]
					if all != nil {
						all[first/(t*n)%heads].Log(row)
					}
					for j := range row {
						row[j] *= math.Log2E
						if (i-bounds[s])%chunk != 0 {
							row[j] += values[first+(i-1)*n+int64(j)]
						}
					}
				}
			}
		}
		return elementwise.SetFloats(out.View(), values)
	}, c.Err()
}
