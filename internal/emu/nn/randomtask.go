package nn

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/random"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
	"github.com/goascend/cann/internal/half"
)

// randomParam is C's aclrtRandomParaInfo: either a value or the device address of one.
type randomParam struct {
	isAddr uint8
	bytes  [8]uint8
	size   uint8
	_      [6]uint8
}

// randomTask is C's aclrtRandomNumTaskInfo.
type randomTask struct {
	dtype        int32
	distribution int32
	params       [2]randomParam // ratio; min and max; or mean and standard deviation
	_            uint64         // address at which the device stores params; not used here
	result       uint64
	counter      uint64
	seed, count  randomParam
	_            [8]uint8
}

// randomReals are the element types of every distribution, randomTypes those of the uniform one.
var (
	randomReals = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}
	randomTypes = append([]dtype.Type{dtype.Int32, dtype.Int64, dtype.Uint32, dtype.Uint64}, randomReals...)
)

// number returns the parameter as 64 bits, of which smaller types use the low ones.
func (p *randomParam) number(memory op.Memory, size int64) (uint64, error) {
	w := binary.LittleEndian.Uint64(p.bytes[:])
	if p.isAddr == 0 {
		return w, nil
	}
	at, err := memory.Resolve(w, size)
	if err != nil {
		return 0, err
	}
	var b [8]byte
	copy(b[:], unsafe.Slice((*byte)(at), size))
	return binary.LittleEndian.Uint64(b[:]), nil
}

// check returns the reason for refusing the parameter, or "".
func (p *randomParam) check(name string, size int) string {
	if p.isAddr == 1 {
		size = 8
	}
	if p.isAddr > 1 || p.size == 0 || int(p.size) > size {
		return fmt.Sprintf("%s has isAddr %d and size %d; use 0 or 1, and 1 to %d", name, p.isAddr, p.size, size)
	}
	return ""
}

// aclrtRandomNumAsync fills memory with random numbers. The generator is random.Philox, as in the
// operators, with the low eight bytes at the counter address as offset. The counter is not
// advanced, and the numbers differ from those of the device.
func (l *Library) aclrtRandomNumAsync(t *rt.Thread, taskInfo *randomTask, stream rt.Handle, _ uintptr) rt.Code {
	const (
		function = "aclrtRandomNumAsync"
		invalid  = int32(abi.ACL_ERROR_INVALID_PARAM)
		refused  = int32(abi.ACL_ERROR_RT_PARAM_INVALID)
	)
	if taskInfo == nil {
		return t.Fail(invalid, "EH0002: %s: taskInfo is null", function)
	}
	x := *taskInfo
	d, types, names := dtype.Type(x.dtype), randomReals, x.names()
	if int64(x.distribution) == abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS {
		types = randomTypes
	}
	if names == nil {
		return t.Fail(refused, "EE1003: %s: funcType %d is unknown", function, x.distribution)
	}
	if !slices.Contains(types, d) {
		return t.Fail(refused, "EE1003: %s: dataType %v; funcType %d has %v", function, d, x.distribution, types)
	}
	if x.counter == 0 || x.result == 0 {
		return t.Fail(refused, "EE1003: %s: randomCounterAddr or randomResultAddr is null", function)
	}
	wrong := []string{x.seed.check("randomSeed", 8), x.count.check("randomNum", 8)}
	for i, name := range names {
		wrong = append(wrong, x.params[i].check(name, d.Size()))
	}
	for _, text := range wrong {
		if text != "" {
			return t.Fail(refused, "EE1003: %s: %s", function, text)
		}
	}
	s, code := l.rt.Stream(t, stream)
	if s == nil {
		return code
	}
	memory := s.Memory()
	return l.rt.Submit(t, s, rt.Task{
		Name: function, Repeatable: true,
		Accesses: func() []sanitize.Access {
			n, _ := x.count.number(memory, 8) // an unreadable count fails when the task runs
			return []sanitize.Access{sanitize.Bytes("randomCounterAddr", sanitize.Reads, x.counter, 16), sanitize.Bytes("randomResultAddr", sanitize.Writes, x.result, x.bytes(n))}
		},
		Run: func() error {
			if err := x.draw(memory); err != nil {
				return op.Fault("%s: %v", function, err)
			}
			return nil
		},
	})
}

// names returns the names of the distribution's parameters, or nil if the distribution is unknown.
func (x *randomTask) names() []string {
	switch int64(x.distribution) {
	case abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK:
		return []string{"dropoutRation"}
	case abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS:
		return []string{"min", "max"}
	case abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS, abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS:
		return []string{"mean", "stddev"}
	}
	return nil
}

// bytes returns the size of n results in bytes.
func (x *randomTask) bytes(n uint64) uint64 {
	if int64(x.distribution) == abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK {
		return n/8 + (n%8+7)/8
	}
	return n * uint64(dtype.Type(x.dtype).Size())
}

// draw reads the parameters and writes the numbers.
func (x *randomTask) draw(memory op.Memory) error {
	d := dtype.Type(x.dtype)
	seed, err := x.seed.number(memory, 8)
	if err != nil {
		return fmt.Errorf("randomSeed: %w", err)
	}
	n, err := x.count.number(memory, 8)
	if err != nil {
		return fmt.Errorf("randomNum: %w", err)
	}
	if n == 0 {
		return nil
	}
	if n > math.MaxInt64/8 {
		return fmt.Errorf("randomNum is %d", n)
	}
	var words [2]uint64
	for i := range x.names() {
		if words[i], err = x.params[i].number(memory, int64(d.Size())); err != nil {
			return fmt.Errorf("parameter %d: %w", i, err)
		}
	}
	counter, err := memory.Resolve(x.counter, 16)
	if err != nil {
		return fmt.Errorf("randomCounterAddr: %w", err)
	}
	host, err := memory.Resolve(x.result, int64(x.bytes(n)))
	if err != nil {
		return fmt.Errorf("randomResultAddr: %w", err)
	}
	p := random.Philox{Seed: seed, Offset: *(*uint64)(counter)}
	out := kernel.View{Data: host, DType: d, Shape: []int64{int64(n)}, Strides: []int64{1}}
	lo, hi := realOf(d, words[0]), realOf(d, words[1])
	switch int64(x.distribution) {
	case abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK:
		if !(lo >= 0 && lo <= 1) {
			return fmt.Errorf("dropoutRation is %v; it must be 0 to 1", lo)
		}
		out.DType, out.Shape = dtype.Uint8, []int64{int64(x.bytes(n))}
		p.KeepBits(out, int64(n), lo)
		return nil
	case abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS:
		if slices.Contains(randomReals, d) {
			if !(lo <= hi) {
				return fmt.Errorf("min is %v, max %v", lo, hi)
			}
			return p.Uniform(out, lo, hi)
		}
		return uniformIntegers(p, out, words)
	}
	if !(hi >= 0) {
		return fmt.Errorf("stddev is %v; it must not be negative", hi)
	}
	if int64(x.distribution) == abi.ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS {
		return p.Normal(out, elementwise.Const(elementwise.Real(lo)), elementwise.Const(elementwise.Real(hi)))
	}
	return truncatedNormal(p, out, lo, hi)
}

// realOf converts the low bits of a word to a floating-point number. Integer types have no such
// value.
func realOf(d dtype.Type, w uint64) float64 {
	switch d {
	case dtype.Float32:
		return float64(math.Float32frombits(uint32(w)))
	case dtype.Float16:
		return float64(half.Float16(w).Float32())
	case dtype.BFloat16:
		return float64(half.BFloat16(w).Float32())
	}
	return 0
}

// uniformIntegers draws integers from words[0] inclusive to words[1].
func uniformIntegers(p random.Philox, out kernel.View, words [2]uint64) error {
	lo, hi, less := words[0], words[1], words[0] < words[1]
	switch out.DType {
	case dtype.Int32:
		lo, hi = uint64(int64(int32(lo))), uint64(int64(int32(hi)))
		less = int64(lo) < int64(hi)
	case dtype.Int64:
		less = int64(lo) < int64(hi)
	case dtype.Uint32:
		lo, hi = uint64(uint32(lo)), uint64(uint32(hi))
		less = lo < hi
	}
	if !less {
		return fmt.Errorf("min must be below max")
	}
	if out.DType == dtype.Uint64 {
		out.DType = dtype.Int64 // the same bits
	}
	return p.Integers(out, int64(lo), hi-lo)
}

// truncatedAt is the bound of the truncated normal distribution in standard deviations.
const truncatedAt = 2

// truncatedNormal draws one number for each element by inverting the distribution function.
func truncatedNormal(p random.Philox, out kernel.View, mean, deviation float64) error {
	z, release := kernel.Temporary(out.Shape...)
	defer release()
	edge := math.Erf(truncatedAt / math.Sqrt2) // the quantile of the edges is ±edge
	to := unsafe.Slice((*float32)(z.Data), out.Len())
	thread.Parallel(out.Len(), 1<<12, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			u := math.Ldexp(float64(p.Bits(i)>>11)+0.5, -53)
			to[i] = float32(mean + deviation*math.Sqrt2*math.Erfinv(edge*(2*u-1)))
		}
	})
	return elementwise.Copy(out, z)
}
