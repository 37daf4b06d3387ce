package ops

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/ops/key"
)

// ConvFits returns nil if a tile of tokens and channels leaves at least a tenth of a vector core's
// Unified Buffer free, otherwise a *Refusal. Kernels with two buffers per operand and float32
// arithmetic call it in their Supports. A buffer of unknown size is accepted. Tiles depend on the
// number of tokens and channels; an exchange between ranks that lengthens sequences and divides
// channels changes both.
func ConvFits(env *Env, k key.CausalConv, tokens, channels int64) error {
	return convTile{tokens, channels}.fits(env, convNeedOf(k))
}

// ConvGradFits is ConvFits for kernels of the gradient, which need more memory.
func ConvGradFits(env *Env, k key.CausalConvGrad, tokens, channels int64) error {
	return convTile{tokens, channels}.fits(env, convGradNeedOf(k))
}

// convTile is the block of tokens and channels that a convolution kernel keeps in the Unified
// Buffer of a vector core.
type convTile struct{ tokens, channels int64 }

// convNeed holds the properties besides the tile that determine how much of the Unified Buffer a
// convolution needs.
type convNeed struct {
	taps, elementBytes     int64
	backward, silu, states bool
}

func convNeedOf(k key.CausalConv) convNeed {
	return convNeed{taps: k.Taps, elementBytes: int64(k.X.Size()), silu: k.SiLU, states: k.InitialState || k.FinalState}
}

func convGradNeedOf(k key.CausalConvGrad) convNeed {
	n := convNeedOf(k.CausalConv)
	n.backward, n.states = true, k.InitialState
	return n
}

// bytes estimates the memory of a kernel with two buffers per operand and float32 arithmetic. On
// hardware such kernels with 64 tokens of 64 channels fit into 192 KiB in 16 bits but not in
// float32, and not with 128 channels; the estimate agrees in each case.
func (t convTile) bytes(n convNeed) int64 {
	block, halo := t.tokens*t.channels, (t.tokens+n.taps-1)*t.channels
	if !n.backward {
		return 2*n.elementBytes*(halo+block) + 4*(halo+2*block+n.taps*t.channels+t.channels)
	}
	bytes := 2*n.elementBytes*(2*halo+block) + 4*(3*halo+2*block) + 4*(2*n.taps*t.channels+2*t.channels)
	if n.silu {
		bytes += 8 * halo
	}
	if n.states {
		bytes += 8 * n.taps * t.channels
	}
	return bytes
}

// fits returns nil if the estimate leaves a tenth of the Unified Buffer free, otherwise a *Refusal.
func (t convTile) fits(env *Env, n convNeed) error {
	return t.within(env, t.bytes(n), int64(env.UnifiedBuffer)*9/10)
}

func (t convTile) within(env *Env, bytes, limit int64) error {
	if env.UnifiedBuffer == 0 || bytes <= limit {
		return nil
	}
	return &Refusal{
		Rule: "C24", Reason: fmt.Sprintf("a tile of %d tokens and %d channels needs %d bytes of Unified Buffer, of which there are %d", t.tokens, t.channels, bytes, limit),
		Remedy: "take a smaller tile or the composite",
	}
}

// Sizes of the native kernels of the custom package for linear attention.
const (
	nativeConvChannels = 4096     // widest tile of the forward kernel, which takes one token at a time
	nativeConvReserve  = 16 << 10 // what the backward kernel leaves free
)

// nativeConvTile returns the forward kernel's tile and the bytes that it needs: five inputs, two
// outputs, and float32 scratch per channel.
func nativeConvTile(channels int64) (t convTile, bytes int64) {
	t = convTile{tokens: 1, channels: min(channels, nativeConvChannels)}
	return t, 46*t.channels + 512
}

// convGradPath is one code path of the backward kernel, with its tile before it is fitted to the
// buffer and a function for the bytes that a tile needs. The formulas are the kernel's own.
type convGradPath struct {
	tile  convTile
	bytes func(s convGradSizes, n convNeed) int64
}

// convGradSizes are numbers of elements, rounded up to eight: of the tile, of the tile with the
// following tokens (halo), of the taps, and of the channels.
type convGradSizes struct{ tile, halo, taps, channels, products int64 }

func sizesOf(t convTile, n convNeed) convGradSizes {
	up := func(n int64) int64 { return (n + 7) / 8 * 8 }
	return convGradSizes{
		tile: up(t.tokens * t.channels), halo: up((t.tokens + n.taps - 1) * t.channels), taps: up(n.taps * t.channels),
		channels: up(t.channels), products: up(n.taps * t.tokens * t.channels),
	}
}

func genericConvGradBytes(s convGradSizes, n convNeed) int64 {
	widest := max(s.tile, s.taps, s.halo)
	bytes := 4 * (3*s.tile + 2*widest + (s.halo - s.tile) + 2*s.taps + s.channels)
	if n.silu {
		bytes += 8 * s.halo
	} else {
		bytes += 4 * (s.products + s.tile)
	}
	if n.states {
		bytes += 4 * s.channels
	}
	return bytes
}

// fastConvGradBytes is for Atlas A2 and A3, fastConvGradBytes950 for Ascend 950.
func fastConvGradBytes(s convGradSizes, _ convNeed) int64 {
	return 4*(s.tile+3*s.halo+2*s.taps+2*s.channels) + 2*(max(s.tile, s.taps)+2*s.halo+2*s.tile)
}

func fastConvGradBytes950(s convGradSizes, _ convNeed) int64 {
	return 2*(3*s.tile+4*s.halo+s.taps) + 4*(s.tile+s.halo+s.taps+s.channels)
}

// pathOf returns the path that the backward kernel takes. The fast ones serve the usual case: 16
// bits, SiLU, four taps, no states.
func pathOf(env *Env, channels int64, n convNeed) convGradPath {
	fast := n.elementBytes == 2 && n.silu && n.taps == 4 && !n.states
	of950 := strings.HasPrefix(env.SoC, "Ascend950")
	switch {
	case fast && of950 && channels%64 == 0:
		return convGradPath{convTile{104, 64}, fastConvGradBytes950}
	case fast && !of950 && channels%128 == 0:
		return convGradPath{convTile{55, 128}, fastConvGradBytes}
	case fast && !of950 && channels%64 == 0:
		return convGradPath{convTile{104, 64}, fastConvGradBytes}
	case channels%64 == 0:
		return convGradPath{convTile{64, 64}, genericConvGradBytes}
	}
	return convGradPath{convTile{64, 16}, genericConvGradBytes}
}

// nativeConvGradTile returns the tile of the backward kernel, which reduces its tokens until it
// fits, and the bytes that it needs.
func nativeConvGradTile(env *Env, channels int64, n convNeed) (t convTile, bytes int64) {
	path := pathOf(env, channels, n)
	t = path.tile
	for {
		bytes = path.bytes(sizesOf(t, n), n)
		if t.tokens == 1 || bytes <= nativeConvGradLimit(env) {
			return t, bytes
		}
		t.tokens--
	}
}

// nativeConvGradLimit returns how many bytes the backward kernel may use, in whole 32-byte blocks.
func nativeConvGradLimit(env *Env) int64 {
	return max(int64(env.UnifiedBuffer)-nativeConvReserve, 0) / 32 * 32
}

// nativeConvFits refuses a forward pass whose tile exceeds the Unified Buffer.
func nativeConvFits(env *Env, channels int64) error {
	t, bytes := nativeConvTile(channels)
	return t.within(env, bytes, int64(env.UnifiedBuffer))
}

// nativeConvGradFits refuses gradients for which not even one token fits.
func nativeConvGradFits(env *Env, k key.CausalConvGrad) error {
	t, bytes := nativeConvGradTile(env, k.Channels, convGradNeedOf(k))
	return t.within(env, bytes, nativeConvGradLimit(env))
}
