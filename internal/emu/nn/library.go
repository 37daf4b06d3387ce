package nn

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libnnopbase and libopapi of one runtime.
type Library struct {
	// Collectives is HCCL, which fused operators use; without it they find no group.
	Collectives Collectives

	rt    *rt.Runtime
	links links
}

// New returns the library over a runtime, whose handles, streams and memory it uses.
func New(r *rt.Runtime) *Library { return &Library{rt: r} }

// Operators is the number of operators in the table; ids are 0 to Operators()-1.
func Operators() int { return len(operators) }

// Functions returns the aclnn base functions by C name.
func (l *Library) Functions() map[string]rt.Func {
	return map[string]rt.Func{
		"aclnnInit":     func(*rt.Thread, []uint64) uint64 { return 0 },
		"aclnnFinalize": func(*rt.Thread, []uint64) uint64 { return 0 },

		"aclCreateTensor":     l.createTensor,
		"aclInitTensor":       l.initTensor,
		"aclDestroyTensor":    l.destroy,
		"aclGetViewShape":     l.viewShape,
		"aclGetViewStrides":   l.viewStrides,
		"aclGetViewOffset":    l.viewOffset,
		"aclGetStorageShape":  l.storageShape,
		"aclGetDataType":      l.dataType,
		"aclGetFormat":        l.format,
		"aclGetRawTensorAddr": l.rawAddr,
		"aclSetRawTensorAddr": l.setRawAddr,

		"aclCreateScalar":         l.createScalar,
		"aclDestroyScalar":        l.destroy,
		"aclCreateScalarList":     l.createScalarList,
		"aclDestroyScalarList":    l.destroyScalarList,
		"aclGetScalarListSize":    l.size,
		"aclCreateTensorList":     l.createTensorList,
		"aclDestroyTensorList":    l.destroyTensorList,
		"aclGetTensorListSize":    l.size,
		"aclCreateIntArray":       l.createIntArray,
		"aclDestroyIntArray":      l.destroy,
		"aclGetIntArraySize":      l.size,
		"aclCreateFloatArray":     l.createFloatArray,
		"aclDestroyFloatArray":    l.destroy,
		"aclGetFloatArraySize":    l.size,
		"aclCreateBoolArray":      l.createBoolArray,
		"aclDestroyBoolArray":     l.destroy,
		"aclGetBoolArraySize":     l.size,
		"aclDestroyAclOpExecutor": l.destroyExecutor,

		"aclnnTransQuantParam":                     l.packParams,
		"aclnnTransSparse4to2Para":                 l.transSparse4to2,
		"aclnnCalculateMatmulWeightSize":           l.weightSize,
		"aclnnCalculateMatmulWeightSizeV2":         l.weightSizeV2,
		"aclnnNpuFormatCastCalculateSizeAndFormat": l.formatShape,

		"aclrtReduceAsync":    l.reduceAsync,
		"aclrtRandomNumAsync": l.randomNumbers,

		"aclSetAclOpExecutorRepeatable": l.setRepeatable,
		"aclSetTensorAddr":              l.setTensorAddr(anyTensor),
		"aclSetInputTensorAddr":         l.setTensorAddr(inputTensor),
		"aclSetOutputTensorAddr":        l.setTensorAddr(outputTensor),
		"aclSetDynamicTensorAddr":       l.setDynamicAddr(anyTensor),
		"aclSetDynamicInputTensorAddr":  l.setDynamicAddr(inputTensor),
		"aclSetDynamicOutputTensorAddr": l.setDynamicAddr(outputTensor),
	}
}

// fail records err as the thread's error text and returns its code.
func (l *Library) fail(t *rt.Thread, err error) uint64 {
	code := int32(abi.ACLNN_ERR_INNER)
	text := err.Error()
	var e *Error
	if errors.As(err, &e) {
		code, text = e.Code, e.Text
	}
	id := "EZ9999"
	if code == nullPointer || code == invalidParam {
		id = "EZ1001"
	}
	return t.Fail(code, "%s: %s", id, text)
}

func (l *Library) null(t *rt.Thread, function, argument string) uint64 {
	return l.fail(t, &Error{Code: nullPointer, Text: fmt.Sprintf("%s: %s is null", function, argument)})
}

func (l *Library) stale(t *rt.Thread, what string, w uint64) uint64 {
	return l.fail(t, &Error{Code: invalidParam, Text: fmt.Sprintf("%#x is not a live %s; was it destroyed?", w, what)})
}
