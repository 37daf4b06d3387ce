package ops

import (
	"fmt"
	"strings"
)

// ConvTile is the block of tokens and channels that a convolution kernel keeps in the
// Unified Buffer of a vector core. Kernels that are registered for CausalConv ask Fits in
// their Supports: the tile follows the number of tokens and channels, and an exchange
// between ranks that lengthens sequences and divides channels changes both at once.
type ConvTile struct{ Tokens, Channels int64 }

// ConvNeed is what, beside the tile, decides how much of the Unified Buffer a convolution
// needs.
type ConvNeed struct {
	Taps, ElementBytes     int64
	Backward, SiLU, States bool
}

// Need is that of the forward pass.
func (a *CausalConvArgs) Need() ConvNeed {
	return ConvNeed{
		Taps: a.Weight.Dim(1), ElementBytes: int64(a.X.DType().Size()), SiLU: a.SiLU,
		States: a.InitialState != nil || a.FinalState != nil,
	}
}

// Need is that of the gradients.
func (a *CausalConvGradArgs) Need() ConvNeed {
	n := a.CausalConvArgs.Need()
	n.Backward, n.States = true, a.InitialState != nil
	return n
}

// Bytes estimates what a kernel with two buffers for each operand and float32 inside needs.
// On hardware such kernels with 64 tokens of 64 channels fit 192 KiB in 16 bits and do not
// in float32, nor do they with 128 channels; the estimate is on the right side each time.
func (t ConvTile) Bytes(n ConvNeed) int64 {
	block, halo := t.Tokens*t.Channels, (t.Tokens+n.Taps-1)*t.Channels
	if !n.Backward {
		return 2*n.ElementBytes*(halo+block) + 4*(halo+2*block+n.Taps*t.Channels+t.Channels)
	}
	bytes := 2*n.ElementBytes*(2*halo+block) + 4*(3*halo+2*block) + 4*(2*n.Taps*t.Channels+2*t.Channels)
	if n.SiLU {
		bytes += 8 * halo
	}
	if n.States {
		bytes += 8 * n.Taps * t.Channels
	}
	return bytes
}

// Fits is nil if the estimate leaves a tenth of the Unified Buffer, and else a *Refusal. A
// buffer of unknown size is given the chance.
func (t ConvTile) Fits(env *Env, n ConvNeed) error {
	return t.within(env, t.Bytes(n), int64(env.UnifiedBuffer)*9/10)
}

func (t ConvTile) within(env *Env, bytes, limit int64) error {
	if env.UnifiedBuffer == 0 || bytes <= limit {
		return nil
	}
	return &Refusal{
		Rule: "C24", Reason: fmt.Sprintf("a tile of %d tokens and %d channels needs %d bytes of Unified Buffer, of which there are %d", t.Tokens, t.Channels, bytes, limit),
		Remedy: "take a smaller tile or the composite",
	}
}

// Sizes of the native kernels of the custom package for linear attention.
const (
	nativeConvChannels = 4096     // the widest tile of the forward kernel, which goes token by token
	nativeConvReserve  = 16 << 10 // what the backward kernel leaves to others
)

// nativeConvTile is the forward kernel's tile, and the bytes it needs: five inputs, two
// outputs, and float32 scratch for each channel.
func nativeConvTile(channels int64) (t ConvTile, bytes int64) {
	t = ConvTile{Tokens: 1, Channels: min(channels, nativeConvChannels)}
	return t, 46*t.Channels + 512
}

// convGradPath is one of the backward kernel's ways to compute, with its tile before it is
// fitted to the buffer and what a tile needs. The formulas are the kernel's own.
type convGradPath struct {
	tile  ConvTile
	bytes func(s convGradSizes, n ConvNeed) int64
}

// convGradSizes are elements, rounded up to eight: of the tile, of the tile with the tokens
// after it, of the taps, and of the channels.
type convGradSizes struct{ tile, halo, taps, channels, products int64 }

func sizesOf(t ConvTile, n ConvNeed) convGradSizes {
	up := func(n int64) int64 { return (n + 7) / 8 * 8 }
	return convGradSizes{
		tile: up(t.Tokens * t.Channels), halo: up((t.Tokens + n.Taps - 1) * t.Channels), taps: up(n.Taps * t.Channels),
		channels: up(t.Channels), products: up(n.Taps * t.Tokens * t.Channels),
	}
}

func genericConvGradBytes(s convGradSizes, n ConvNeed) int64 {
	widest := max(s.tile, s.taps, s.halo)
	bytes := 4 * (3*s.tile + 2*widest + (s.halo - s.tile) + 2*s.taps + s.channels)
	if n.SiLU {
		bytes += 8 * s.halo
	} else {
		bytes += 4 * (s.products + s.tile)
	}
	if n.States {
		bytes += 4 * s.channels
	}
	return bytes
}

// fastConvGradBytes is of Atlas A2 and A3, fastConvGradBytes950 of Ascend 950.
func fastConvGradBytes(s convGradSizes, _ ConvNeed) int64 {
	return 4*(s.tile+3*s.halo+2*s.taps+2*s.channels) + 2*(max(s.tile, s.taps)+2*s.halo+2*s.tile)
}

func fastConvGradBytes950(s convGradSizes, _ ConvNeed) int64 {
	return 2*(3*s.tile+4*s.halo+s.taps) + 4*(s.tile+s.halo+s.taps+s.channels)
}

// pathOf is the way that the backward kernel goes. Fast ones are for what models have: 16
// bits, SiLU, four taps, no states.
func pathOf(env *Env, channels int64, n ConvNeed) convGradPath {
	fast := n.ElementBytes == 2 && n.SiLU && n.Taps == 4 && !n.States
	of950 := strings.HasPrefix(env.SoC, "Ascend950")
	switch {
	case fast && of950 && channels%64 == 0:
		return convGradPath{ConvTile{104, 64}, fastConvGradBytes950}
	case fast && !of950 && channels%128 == 0:
		return convGradPath{ConvTile{55, 128}, fastConvGradBytes}
	case fast && !of950 && channels%64 == 0:
		return convGradPath{ConvTile{104, 64}, fastConvGradBytes}
	case channels%64 == 0:
		return convGradPath{ConvTile{64, 64}, genericConvGradBytes}
	}
	return convGradPath{ConvTile{64, 16}, genericConvGradBytes}
}

// nativeConvGradTile is the tile that the backward kernel takes, with fewer tokens until it
// fits, and the bytes it needs.
func nativeConvGradTile(env *Env, channels int64, n ConvNeed) (t ConvTile, bytes int64) {
	path := pathOf(env, channels, n)
	t = path.tile
	for {
		bytes = path.bytes(sizesOf(t, n), n)
		if t.Tokens == 1 || bytes <= nativeConvGradLimit(env) {
			return t, bytes
		}
		t.Tokens--
	}
}

// nativeConvGradLimit is what the backward kernel may use, in whole blocks of 32 bytes.
func nativeConvGradLimit(env *Env) int64 {
	return max(int64(env.UnifiedBuffer)-nativeConvReserve, 0) / 32 * 32
}

// nativeConvFits refuses a forward pass whose tile exceeds the Unified Buffer.
func nativeConvFits(env *Env, a *CausalConvArgs) error {
	t, bytes := nativeConvTile(a.X.Dim(2))
	return t.within(env, bytes, int64(env.UnifiedBuffer))
}

// nativeConvGradFits refuses gradients for which not even one token fits.
func nativeConvGradFits(env *Env, a *CausalConvGradArgs) error {
	t, bytes := nativeConvGradTile(env, a.X.Dim(2), a.Need())
	return t.within(env, bytes, nativeConvGradLimit(env))
}
