package service

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/blas"
	"github.com/goascend/cann/aclnn/fft"
)

// spectrum returns the complex amplitudes of a real signal, and their Euclidean norm, computed on a stream's device.
func spectrum(ctx context.Context, st *acl.Stream, signal []float32) (amplitudes []complex64, norm float32, err error) {
	plan, err := fft.Plan1D(st, fft.RealToComplex, len(signal), 1, fft.Rows)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	amplitudes = make([]complex64, len(signal)/2+1)
	if err := plan.RealToComplex(ctx, amplitudes, signal); err != nil {
		return nil, 0, err
	}

	h, err := blas.New(st)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	numbers := make([]float32, 0, 2*len(amplitudes))
	for _, a := range amplitudes {
		numbers = append(numbers, real(a), imag(a))
	}
	memory, err := st.Malloc(4 * (len(numbers) + 1))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	if err := acl.CopyToDevice(ctx, st, memory, append(numbers, 0)); err != nil {
		return nil, 0, err
	}
	result := blas.Vector{Data: memory, Offset: len(numbers), N: 1}
	if err := h.Nrm2(blas.Vector{Data: memory, N: len(numbers)}, result); err != nil {
		return nil, 0, err
	}
	values := make([]float32, len(numbers)+1)
	err = acl.CopyFromDevice(ctx, st, values, memory)
	return amplitudes, values[len(numbers)], err
}
