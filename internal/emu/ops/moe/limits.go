package moe

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/op"
)

// limits are the sizes that the kernels of a chip exchange.
type limits struct {
	narrow, unit, wide int64 // features of a token: the least, what they are a multiple of, the most
	tokens             int64 // of a rank
	choices            int64 // experts of a token
	experts, perRank   int64
	ranks, rankUnit    int64
	alone              bool // there is no tensor parallelism, and no rank for shared experts
	messages           func(d distribution, width int64) int64
}

// Limits of Atlas A2, where the ranks send directly or, layered, through a rank of each server.
var (
	limitsA2 = limits{
		narrow: 32, unit: 32, wide: 7168, tokens: 256, choices: 16, experts: 512, perRank: 24, ranks: 256, rankUnit: 8, alone: true,
		messages: func(d distribution, width int64) int64 {
			return 2 * (d.most*int64(d.ep.Size)*min(d.perRank(), d.choices)*width*2 + mebibyte)
		},
	}
	limitsLayered = limits{
		narrow: 32, unit: 32, wide: 10240, tokens: 256, choices: 16, experts: 512, perRank: 512, ranks: 64, rankUnit: 8, alone: true,
		messages: func(d distribution, width int64) int64 {
			return d.experts*d.most*(width*2+16*up(d.choices, 8)) + 104*mebibyte
		},
	}
)

// Limits of Atlas A3, for the first version of the operators and the later ones.
var (
	limitsA3V1 = limits{
		narrow: 7168, unit: 7168, wide: 7168, tokens: 512, choices: 8, experts: 512, perRank: 512, ranks: 288, rankUnit: 8,
		messages: func(d distribution, width int64) int64 {
			return 2*d.most*2*(width+128)*(int64(d.ep.Size)*d.perRank()+d.choices+1) + 2*mebibyte
		},
	}
	limitsA3 = limits{
		narrow: 1024, unit: 1, wide: 8192, tokens: 512, choices: 16, experts: 1024, perRank: 1024, ranks: 768, rankUnit: 1,
		messages: func(d distribution, width int64) int64 {
			row := up(2*width, 512)
			return 2 * (d.perRank()*d.most*int64(d.ep.Size)*up(up(2*width, 32)+64, 512) + (d.choices+d.sharedExperts)*d.most*row)
		},
	}
)

// limitsA3Layered holds the limits of Atlas A3 between super pods, which the fourth version of the operators can cross.
var limitsA3Layered = limits{
	narrow: 1024, unit: 32, wide: 7168, tokens: 512, choices: 16, experts: 512, perRank: 24, ranks: 256, rankUnit: 16, alone: true,
	messages: func(d distribution, width int64) int64 {
		return d.experts*d.most*(width*2+3*(d.choices+7)/8*8)*4 + 64 + 404*mebibyte
	},
}

const mebibyte = 1 << 20

// up rounds n up to a multiple.
func up(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// limitsOf returns the limits for a call.
func limitsOf(c *op.Call) *limits {
	first, algorithm := !c.Has("commAlg"), ""
	if !first {
		algorithm = c.Text("commAlg")
	}
	if c.Chip() != acceptance.Ascend910B {
		if strings.HasSuffix(c.Op.Name, "V4") && algorithm == "hierarchy" {
			return &limitsA3Layered
		}
		if !slices.Contains([]string{"", "fullmesh_v1", "fullmesh_v2"}, algorithm) {
			c.Unfit("commAlg is %q; use fullmesh_v1 or fullmesh_v2", algorithm)
		}
		if first {
			return &limitsA3V1
		}
		return &limitsA3
	}
	switch algorithm {
	case "hierarchy":
		return &limitsLayered
	case "", "0":
		if os.Getenv("HCCL_INTRA_PCIE_ENABLE") == "1" && os.Getenv("HCCL_INTRA_ROCE_ENABLE") == "0" {
			if layered := limitsLayered; first {
				layered.wide = limitsA2.wide
				return &layered
			}
			return &limitsLayered
		}
	case "fullmesh":
	default:
		c.Unfit("commAlg is %q; use fullmesh or hierarchy", algorithm)
	}
	return &limitsA2
}

// checkLimits refuses what the tiling of the chip refuses, and buffers of communicators that would
// overflow on the device.
func (d distribution) checkLimits(c *op.Call, width int64) {
	if !c.Tiled() || c.Err() != nil {
		return
	}
	l, ranks := limitsOf(c), int64(d.ep.Size)
	between := func(what string, n, least, unit, most int64) {
		if n < least || n > most || n%unit != 0 {
			c.Unfit("%s is %d; it must be a multiple of %d from %d to %d", what, n, unit, least, most)
		}
	}
	between("the number of features", width, l.narrow, l.unit, l.wide)
	between("the number of tokens", d.tokens, 1, 1, l.tokens)
	between("the number of experts of a token", d.choices, 1, 1, min(l.choices, d.experts))
	between("epWorldSize", ranks, max(l.rankUnit, 2), l.rankUnit, l.ranks)
	between("moeExpertNum", d.experts, 1, 1, l.experts)
	if c.Err() != nil {
		return
	}
	if l.alone && (d.tp.Size > 1 || d.sharedRanks > 0) {
		c.Unfit("tpWorldSize is %d and sharedExpertRankNum %d; an Atlas A2, and commAlg hierarchy, has neither", d.tp.Size, d.sharedRanks)
		return
	}
	between("the number of experts on a rank", d.perRank(), 1, 1, l.perRank)
	if need, have := l.messages(d, width), bufferSize(); need > have {
		c.Unfit("HCCL_BUFFSIZE is %d; the messages need %d", have/mebibyte, (need+mebibyte-1)/mebibyte)
	}
}

// bufferSize returns the size in bytes of a communicator's buffer, which the environment gives in
// mebibytes.
func bufferSize() int64 {
	n, err := strconv.ParseInt(os.Getenv("HCCL_BUFFSIZE"), 10, 64)
	if err != nil || n <= 0 {
		n = 200
	}
	return n * mebibyte
}
