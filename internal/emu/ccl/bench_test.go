package ccl_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// BenchmarkAllReduce measures float32 sums over two ranks that are queued back to back.
func BenchmarkAllReduce(b *testing.B) {
	for world, make := range worlds {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("%s/%d", world, size), func(b *testing.B) {
				all := make(b, 2, patient)
				b.SetBytes(int64(size))
				b.ResetTimer()
				each(all, func(r *rank) { r.reduceRepeatedly(size, b.N) })
			})
		}
	}
}

func (r *rank) reduceRepeatedly(size, n int) {
	zeros := make([]byte, size)
	p, q := r.upload(zeros), r.upload(zeros)
	for range n {
		r.must("HcclAllReduce", p, q, uint64(size/4), 4, sum, r.comm, r.stream)
	}
	require.Zero(r.tb, r.sync(), r.text())
	r.free(p)
	r.free(q)
}

// BenchmarkSum measures the minimum work of an all-reduce of two ranks: one sum, on two threads.
func BenchmarkSum(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			memory, err := unix.Mmap(-1, 0, 3*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
			require.NoError(b, err)
			defer func() { require.NoError(b, unix.Munmap(memory)) }()
			view := func(i int) kernel.View {
				return kernel.View{Data: unsafe.Pointer(&memory[i*size]), DType: dtype.Float32, Shape: []int64{int64(size / 4)}, Strides: []int64{1}}
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				require.NoError(b, elementwise.Map(elementwise.Add, dtype.Float32, view(2), []elementwise.Input{elementwise.Of(view(0)), elementwise.Of(view(1))}, elementwise.Whole(1)))
			}
		})
	}
}
