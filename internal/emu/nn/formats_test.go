package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// TestFormats checks rules of each kind. What an operator does not look at it takes.
func TestFormats(t *testing.T) {
	tensor := func(rank int, f dtype.Format) *op.Tensor {
		shape := []int64{2, 2, 2, 2, 2}[:rank]
		return &op.Tensor{Shape: shape, Strides: op.ContiguousStrides(shape), DType: dtype.Float32, Format: f}
	}
	for _, c := range []struct {
		operator string
		tensors  map[string]*op.Tensor
		refusal  string
	}{
		{"Convolution", map[string]*op.Tensor{"input": tensor(4, dtype.NCHW), "weight": tensor(4, dtype.NCHW), "output": tensor(4, dtype.NCHW), "bias": tensor(1, dtype.ND)}, ""},
		{"Convolution", map[string]*op.Tensor{"input": tensor(4, dtype.NCHW), "weight": tensor(4, dtype.ND), "output": tensor(4, dtype.NCHW)}, "weight float32[2,2,2,2]ND has a format"},
		{"Convolution", map[string]*op.Tensor{"input": tensor(3, dtype.NCL), "weight": tensor(3, dtype.NCL), "output": tensor(3, dtype.NCL)}, ""},
		{"Convolution", map[string]*op.Tensor{"input": tensor(5, dtype.NDHWC)}, "channels last"},
		{"ConvolutionBackward", map[string]*op.Tensor{"gradOutput": tensor(3, dtype.ND), "input": tensor(3, dtype.NCL), "gradInput": tensor(3, dtype.ND)}, ""},
		{"MaxPool", map[string]*op.Tensor{"self": tensor(4, dtype.ND), "out": tensor(4, dtype.ND)}, ""},
		{"MaxPool", map[string]*op.Tensor{"self": tensor(4, dtype.ND), "out": tensor(4, dtype.NCHW)}, "formats differ"},
		{"BatchNorm", map[string]*op.Tensor{"input": tensor(5, dtype.ND), "output": tensor(5, dtype.ND)}, "[NCDHW NDHWC]"},
		{"BatchNorm", map[string]*op.Tensor{"input": tensor(4, dtype.ND), "output": tensor(4, dtype.ND)}, ""},
		{"UpsampleNearest2d", map[string]*op.Tensor{"self": tensor(4, dtype.ND), "out": tensor(4, dtype.ND)}, "[NCHW NHWC]"},
		{"Abs", map[string]*op.Tensor{"self": tensor(3, dtype.NHWC), "out": tensor(3, dtype.NHWC)}, ""},
		{"Abs", map[string]*op.Tensor{"self": tensor(3, dtype.NHWC), "out": tensor(3, dtype.NCHW)}, "formats differ"},
		{"SignBitsPack", map[string]*op.Tensor{"self": tensor(1, dtype.NCHW), "out": tensor(1, dtype.ND)}, "[ND]"},
		{"Mul", map[string]*op.Tensor{"self": tensor(4, dtype.NHWC), "other": tensor(4, dtype.NCHW), "out": tensor(4, dtype.ND)}, ""},
	} {
		o := op.Find(c.operator)
		require.NotNil(t, o, c.operator)
		args := make([]any, len(o.Params))
		for i, p := range o.Params {
			if x := c.tensors[p.Name]; x != nil {
				args[i] = x
			}
		}
		call := op.NewCall(o, args, op.Env{})
		checkFormats(call)
		if c.refusal == "" {
			require.NoError(t, call.Err(), c.operator)
			continue
		}
		require.ErrorContains(t, call.Err(), c.refusal, c.operator)
		var e *op.Error
		require.ErrorAs(t, call.Err(), &e)
		require.Equal(t, op.InvalidParam, e.Code)
	}
}
