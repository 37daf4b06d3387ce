package nn

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op/optest"
)

const (
	dropoutBits      = int32(abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK)
	uniformNumbers   = int32(abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS)
	normalNumbers    = int32(abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS)
	truncatedNormals = int32(abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS)
)

// bitsOf returns the bytes of a number in C memory as type d.
func bitsOf(t testing.TB, d dtype.Type, x float64) []byte {
	v := kerneltest.New(t, d, kerneltest.Contiguous, []int64{1}, []float64{x})
	return slices.Clone(unsafe.Slice((*byte)(v.Data), d.Size()))
}

// byValue returns a parameter passed by value.
func byValue(b []byte) (p randomParam) {
	p.size = uint8(copy(p.bytes[:], b))
	return p
}

func word64(x uint64) []byte { return binary.LittleEndian.AppendUint64(nil, x) }

// randomCase is a task with memory for its results.
type randomCase struct {
	p    *program
	task *randomTask
	out  kernel.View
}

func newRandomCase(t testing.TB, d dtype.Type, distribution int32, n int64, first, second float64) *randomCase {
	p := newProgram(t)
	c := &randomCase{p: p, out: kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, make([]float64, n))}
	counter := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0, 0})
	block := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{104}, make([]float64, 104)) // C memory
	c.task = (*randomTask)(block.Data)
	*c.task = randomTask{
		dtype: int32(d), distribution: distribution, result: p.onDevice(c.out), counter: p.onDevice(counter),
		params: [2]randomParam{byValue(bitsOf(t, d, first)), byValue(bitsOf(t, d, second))},
		seed:   byValue(word64(42)), count: byValue(word64(uint64(n))),
	}
	return c
}

func (c *randomCase) address() uint64 { return uint64(uintptr(unsafe.Pointer(c.task))) }

func (c *randomCase) draw() []float64 {
	c.p.t.Helper()
	n := uint64(c.out.Len()) * uint64(c.out.DType.Size())
	c.p.must("aclrtRandomNumAsync", c.address(), 0, 0)
	c.p.must("aclrtSynchronizeStream", 0)
	c.p.must("aclrtMemcpy", at(c.out), n, c.task.result, n, abi.ACL_MEMCPY_DEVICE_TO_HOST)
	return slices.Clone(kerneltest.Values(c.out))
}

func TestRandomNumbers(t *testing.T) {
	const n = 20001
	for _, d := range randomTypes {
		t.Run(fmt.Sprint("uniform ", d), func(t *testing.T) {
			c := newRandomCase(t, d, uniformNumbers, n, 10, 90)
			x := c.draw()
			mean, deviation := optest.Moments(x)
			assert.InDelta(t, 50, mean, 1)
			assert.InDelta(t, 80/math.Sqrt(12), deviation, 0.5)
			assert.GreaterOrEqual(t, slices.Min(x), 10.0)
			if slices.Contains(randomReals, d) {
				assert.LessOrEqual(t, slices.Max(x), 90.0)
			} else {
				assert.Equal(t, 89.0, slices.Max(x))
			}
			assert.Equal(t, x, c.draw(), "seed and counter fix the numbers")
			c.task.seed = byValue(word64(43))
			assert.NotEqual(t, x, c.draw())
		})
	}
	for _, d := range randomReals {
		t.Run(fmt.Sprint("normal ", d), func(t *testing.T) {
			mean, deviation := optest.Moments(newRandomCase(t, d, normalNumbers, n, 3, 2).draw())
			assert.InDelta(t, 3, mean, 0.06)
			assert.InDelta(t, 2, deviation, 0.06)
			x := newRandomCase(t, d, truncatedNormals, n, 3, 2).draw()
			mean, deviation = optest.Moments(x)
			assert.InDelta(t, 3, mean, 0.06)
			assert.InDelta(t, 2*0.8796, deviation, 0.06, "of the distribution cut at two deviations")
			assert.GreaterOrEqual(t, slices.Min(x), -1.0)
			assert.LessOrEqual(t, slices.Max(x), 7.0)
		})
		t.Run(fmt.Sprint("dropout ", d), func(t *testing.T) {
			c := newRandomCase(t, d, dropoutBits, n, 0.25, 0)
			c.out = kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{(n + 7) / 8}, make([]float64, (n+7)/8))
			kept := 0
			for _, b := range c.draw() {
				kept += bits.OnesCount8(uint8(b))
			}
			assert.InDelta(t, 0.75*n, kept, 0.02*n)
		})
	}
}

// Every parameter may be a device address. It is read when the task runs.
func TestRandomNumbersByAddress(t *testing.T) {
	c := newRandomCase(t, dtype.Float32, uniformNumbers, 64, 1, 2)
	want := c.draw()
	byAddress := func(p *randomParam, d dtype.Type, x float64) {
		*p = byValue(word64(c.p.onDevice(kerneltest.New(t, d, kerneltest.Contiguous, []int64{1}, []float64{x}))))
		p.isAddr = 1
	}
	byAddress(&c.task.params[0], dtype.Float32, 1)
	byAddress(&c.task.params[1], dtype.Float32, 2)
	byAddress(&c.task.seed, dtype.Uint64, 42)
	byAddress(&c.task.count, dtype.Uint64, 64)
	assert.Equal(t, want, c.draw())
	c.task.counter = c.p.onDevice(kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{7, 0}))
	assert.NotEqual(t, want, c.draw(), "another offset")
	byAddress(&c.task.count, dtype.Uint64, 0)
	c.p.must("aclrtRandomNumAsync", c.address(), 0, 0)
	c.p.must("aclrtSynchronizeStream", 0)
}

func TestRandomNumbersOfWholeRange(t *testing.T) {
	c := newRandomCase(t, dtype.Int64, uniformNumbers, 999, 0, 0)
	c.task.params = [2]randomParam{byValue(word64(1 << 63)), byValue(word64(math.MaxInt64))}
	x := c.draw()
	assert.Less(t, slices.Min(x), -9e18)
	assert.Greater(t, slices.Max(x), 9e18)
	c.task.dtype, c.out.DType = int32(dtype.Uint64), dtype.Uint64
	c.task.params = [2]randomParam{byValue(word64(1 << 63)), byValue(word64(math.MaxUint64))}
	assert.Greater(t, slices.Min(c.draw()), 9.2e18)
}

func TestRandomNumbersRefuse(t *testing.T) {
	const refused = int32(abi.ACL_ERROR_RT_PARAM_INVALID)
	require.EqualValues(t, 104, unsafe.Sizeof(randomTask{}))
	require.EqualValues(t, 64, unsafe.Offsetof(randomTask{}.seed))
	for _, x := range []struct {
		text   string
		change func(*randomTask)
	}{
		{"funcType 4", func(x *randomTask) { x.distribution = 4 }},
		{"dataType float64", func(x *randomTask) { x.dtype = int32(dtype.Float64) }},
		{"dataType int32", func(x *randomTask) { x.dtype, x.distribution = int32(dtype.Int32), normalNumbers }},
		{"randomCounterAddr", func(x *randomTask) { x.counter = 0 }},
		{"randomResultAddr", func(x *randomTask) { x.result = 0 }},
		{"randomSeed has isAddr 2", func(x *randomTask) { x.seed.isAddr = 2 }},
		{"randomNum has isAddr 0 and size 0", func(x *randomTask) { x.count.size = 0 }},
		{"max has isAddr 0 and size 8", func(x *randomTask) { x.params[1].size = 8 }},
		{"stddev has isAddr 1 and size 9", func(x *randomTask) {
			x.distribution, x.params[1].isAddr, x.params[1].size = normalNumbers, 1, 9
		}},
		{"dropoutRation has isAddr 0 and size 5", func(x *randomTask) { x.distribution, x.params[0].size = dropoutBits, 5 }},
	} {
		c := newRandomCase(t, dtype.Float32, uniformNumbers, 8, 0, 1)
		x.change(c.task)
		assert.Equal(t, refused, c.p.call("aclrtRandomNumAsync", c.address(), 0, 0), x.text)
		assert.Contains(t, c.p.text(), x.text)
	}
	c := newRandomCase(t, dtype.Float32, uniformNumbers, 8, 0, 1)
	assert.EqualValues(t, 100000, c.p.call("aclrtRandomNumAsync", 0, 0, 0))

	for _, x := range []struct {
		text   string
		change func(*randomTask)
	}{
		{"min is 1, max 0", func(x *randomTask) { x.params[0], x.params[1] = x.params[1], x.params[0] }},
		{"min must be below max", func(x *randomTask) { x.dtype, x.params[1] = int32(dtype.Int32), x.params[0] }},
		{"stddev is -1", func(x *randomTask) {
			x.distribution, x.params[1] = truncatedNormals, byValue(bitsOf(t, dtype.Float32, -1))
		}},
		{"dropoutRation is 2", func(x *randomTask) { x.distribution, x.params[0] = dropoutBits, byValue(bitsOf(t, dtype.Float32, 2)) }},
		{"randomNum is", func(x *randomTask) { x.count = byValue(word64(1 << 62)) }},
		{"randomResultAddr", func(x *randomTask) { x.count = byValue(word64(1 << 30)) }},
		{"randomSeed", func(x *randomTask) { x.seed.isAddr = 1 }},
	} {
		c := newRandomCase(t, dtype.Float32, uniformNumbers, 8, 0, 1)
		x.change(c.task)
		c.p.must("aclrtRandomNumAsync", c.address(), 0, 0)
		assert.EqualValues(t, abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, c.p.call("aclrtSynchronizeStream", 0), x.text)
		assert.Contains(t, c.p.text(), x.text)
	}
}
