package nn

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// packedGroup is the multiple to which aclnnTransQuantParam pads an array of more than one scale.
const packedGroup = 16

// aclnnTransQuantParam packs scales and offsets in host memory. Unlike the operator
// aclnnTransQuantParamV2 it keeps all bits of a scale, rounds an offset half away from zero, gives
// the k-th offset to the k-th scale without broadcasting, and pads the result with zeros. The
// caller frees the returned array.
func (l *Library) aclnnTransQuantParam(scaleArray *float32, scaleSize uint64, offsetArray *float32, offsetSize uint64, quantParam *rt.Address, quantParamSize *uint64) error {
	refuse := func(code int32, text string) error {
		return &op.Error{Code: code, Text: "aclnnTransQuantParam: " + text}
	}
	switch {
	case (offsetArray == nil) != (offsetSize == 0):
		return refuse(op.InvalidParam, fmt.Sprintf("offsetSize is %d; it is 0 without offsetArray and at least 1 with it", offsetSize))
	case scaleArray == nil || scaleSize == 0:
		return refuse(op.InvalidParam, "scaleArray is null or scaleSize is 0")
	case quantParam == nil || quantParamSize == nil:
		return refuse(op.NullPointer, "quantParam or quantParamSize is null")
	}
	n := max(scaleSize, offsetSize)
	if n > 1 {
		n = (n + packedGroup - 1) / packedGroup * packedGroup
	}
	packed := make([]uint64, n)
	for i, s := range copied(scaleArray, scaleSize) {
		packed[i] = uint64(math.Float32bits(s)) | op.ScaleFlag
	}
	for i, o := range copied(offsetArray, offsetSize) {
		packed[i] |= op.PackOffset(math.Round(float64(o)))
	}
	*quantParam, *quantParamSize = inC(packed), n
	return nil
}
