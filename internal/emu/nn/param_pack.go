package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// aclnnTransQuantParam works on host memory. The caller frees the returned array.
func (l *Library) aclnnTransQuantParam(scaleArray *float32, scaleSize uint64, offsetArray *float32, offsetSize uint64, quantParam *rt.Address, quantParamSize *uint64) error {
	refuse := func(code int32, text string) error {
		return &op.Error{Code: code, Text: "aclnnTransQuantParam: " + text}
	}
	if scaleArray == nil || quantParam == nil || quantParamSize == nil {
		return refuse(op.NullPointer, "scaleArray, quantParam or quantParamSize is null")
	}
	scales, offsets := copied(scaleArray, scaleSize), copied(offsetArray, offsetSize)
	if len(scales) == 0 || offsetArray != nil && len(offsets) == 0 {
		return refuse(op.InvalidParam, "scaleSize or offsetSize is 0")
	}
	n := max(len(scales), len(offsets))
	if len(scales) != 1 && len(scales) != n || len(offsets) > 1 && len(offsets) != n {
		return refuse(op.InvalidParam, fmt.Sprintf("%d scales and %d offsets; one of them has one element, or both as many", len(scales), len(offsets)))
	}
	packed := make([]uint64, n)
	for i := range packed {
		var offset *float32
		if offsetArray != nil {
			offset = &offsets[min(i, len(offsets)-1)]
		}
		packed[i] = op.PackScale(scales[min(i, len(scales)-1)], offset, false)
	}
	*quantParam, *quantParamSize = inC(packed), uint64(n)
	return nil
}
