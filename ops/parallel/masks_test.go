package parallel_test

import (
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/ops/mask"
)

// denseForms write cells, 1 where a key is hidden, in every way that mask.Dense takes.
var denseForms = map[string]func(b *bench, cells []byte, shape ...int64) mask.Dense{
	"bool": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Bool, cells, shape...)}
	},
	"uint8": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Uint8, convert(cells, func(c byte) byte { return c * 200 }), shape...)}
	},
	"int64": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Int64, convert(cells, func(c byte) int64 { return -int64(c) }), shape...)}
	},
	"visible bool": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Bool, convert(cells, func(c byte) byte { return 1 - c }), shape...), Meaning: mask.Visible}
	},
	"visible int32": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Int32, convert(cells, func(c byte) int32 { return int32(1-c) * 6 }), shape...), Meaning: mask.Visible}
	},
	"additive": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: b.floats(aclnn.Float32, convert(cells, func(c byte) float32 { return -float32(c) * math.MaxFloat32 }), shape...), Meaning: mask.Additive}
	},
	"additive float16": func(b *bench, cells []byte, shape ...int64) mask.Dense {
		return mask.Dense{Tensor: data(b, aclnn.Float16, convert(cells, func(c byte) half.Float16 { return half.Float16FromFloat32(float32(c) * float32(math.Inf(-1))) }), shape...), Meaning: mask.Additive}
	},
}

// causalCells are the cells of a causal mask of padded rows.
func causalCells(valid [][]bool, heads int) (cells []byte) {
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
