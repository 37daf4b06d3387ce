package opstest

import (
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/ops/mask"
)

// DenseForms write cells, 1 where a key is hidden, in every way that mask.Dense takes.
var DenseForms = map[string]func(b *Bench, cells []byte, shape ...int64) mask.Dense{
	"bool": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Bool, cells, shape...), Meaning: mask.Hidden}
	},
	"uint8": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Uint8, Convert(cells, func(c byte) byte { return c * 200 }), shape...), Meaning: mask.Hidden}
	},
	"int64": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Int64, Convert(cells, func(c byte) int64 { return -int64(c) }), shape...), Meaning: mask.Hidden}
	},
	"visible bool": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Bool, Convert(cells, func(c byte) byte { return 1 - c }), shape...), Meaning: mask.Visible}
	},
	"visible int32": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Int32, Convert(cells, func(c byte) int32 { return int32(1-c) * 6 }), shape...), Meaning: mask.Visible}
	},
	"additive": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: b.Floats(aclnn.Float32, Convert(cells, func(c byte) float32 { return -float32(c) * math.MaxFloat32 }), shape...), Meaning: mask.Additive}
	},
	"additive float16": func(b *Bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: Data(b, aclnn.Float16, Convert(cells, func(c byte) half.Float16 { return half.Float16FromFloat32(float32(c) * float32(math.Inf(-1))) }), shape...), Meaning: mask.Additive}
	},
}

// CausalCells returns the cells of a causal mask of padded rows.
func CausalCells(valid [][]bool, heads int) (cells []byte) {
	for _, row := range valid {
		for range heads {
			for i := range row {
				for j := range row {
					hidden := byte(0)
					if j > i || !row[j] {
						hidden = 1
					}
					cells = append(cells, hidden)
				}
			}
		}
	}
	return cells
}
