package gemm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestUnpackInt4(t *testing.T) {
	packed := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{4}, []float64{0x10, 0x7f, 0x98, 0xef})
	out := kerneltest.New(t, dtype.Int8, kerneltest.Contiguous, []int64{2, 4}, nil)
	require.NoError(t, gemm.UnpackInt4(out, packed.Data))
	require.Equal(t, []float64{0, 1, -1, 7, -8, -7, -1, -2}, kerneltest.Values(out))

	odd := kerneltest.New(t, dtype.Int8, kerneltest.Contiguous, []int64{3}, nil)
	require.ErrorContains(t, gemm.UnpackInt4(odd, packed.Data), "even")
	strided := kerneltest.New(t, dtype.Int8, kerneltest.Gapped, []int64{4}, nil)
	require.ErrorContains(t, gemm.UnpackInt4(strided, packed.Data), "contiguous")
}
