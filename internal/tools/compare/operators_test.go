package compare_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

var timesFile = flag.String("operators", "", "file that BenchmarkOperators appends its times to, one JSON object per line")

// arguments is a struct of a call's arguments, such as aclnn.AbsParams.
type arguments interface {
	Operator() *aclnn.Operator
	Encode(c *aclnn.Call)
}

// operator is a call of about a million elements. torch_operators.py has a case of the same name.
type operator struct {
	name string
	args func(d *data) arguments
}

var families = [][]operator{elementwise, reductions, indices, layouts, activations, losses, norms, windows, matrices, randoms, lists}

// BenchmarkOperators times the emulator's operators, whose times in PyTorch torch_operators.py takes.
// The best call counts, which sets the machine's other work apart.
//
//	go test -c -tags emu -o compare.test
//	taskset -c 0,1 ./compare.test -test.run '^$' -test.bench Operators -test.benchtime 30ms -test.cpu 2 -operators ours.jsonl
//	taskset -c 0,1 python3 torch_operators.py time --threads 2 > theirs.jsonl
//	python3 torch_operators.py compare ours.jsonl theirs.jsonl
func BenchmarkOperators(b *testing.B) {
	st := acltest.Stream(b, acltest.Device(b, acltest.Open(b), 0))
	for _, family := range families {
		for _, o := range family {
			b.Run(o.name, func(b *testing.B) {
				best := o.time(b, st)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(best, "ms")
				record(b, o.name, best)
			})
		}
	}
}

// time returns the milliseconds of the fastest of b.Loop's calls.
func (o operator) time(b *testing.B, st *acl.Stream) float64 {
	args := o.args(&data{b, st, rand.New(rand.NewPCG(1, 2))})
	call := func() {
		c := aclnn.NewCall(st, args.Operator())
		args.Encode(c)
		require.NoError(b, c.Launch())
		require.NoError(b, st.Synchronize(b.Context()))
	}
	call()
	best := math.Inf(1)
	for b.Loop() {
		begin := time.Now()
		call()
		best = min(best, time.Since(begin).Seconds()*1e3)
	}
	return best
}

func record(t testing.TB, name string, ms float64) {
	if *timesFile == "" {
		return
	}
	f, err := os.OpenFile(*timesFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	require.NoError(t, err)
	require.NoError(t, json.NewEncoder(f).Encode(map[string]any{"name": name, "ms": ms}))
	require.NoError(t, f.Close())
}

func TestOperatorsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, family := range families {
		for _, o := range family {
			require.False(t, seen[o.name], o.name)
			seen[o.name] = true
		}
	}
	require.Greater(t, len(seen), 150)
}

// fill sets the fields of a struct of arguments in order; nil leaves one out.
func fill(a arguments, values ...any) arguments {
	s := reflect.ValueOf(a).Elem()
	if len(values) != s.NumField() {
		panic(fmt.Sprintf("%T has %d fields, not %d", a, s.NumField(), len(values)))
	}
	for i, value := range values {
		f := s.Field(i)
		switch v := value.(type) {
		case nil:
		case int:
			value = aclnn.Int(int64(v))
			if f.Kind() != reflect.Struct {
				value = reflect.ValueOf(v).Convert(f.Type()).Interface()
			}
			f.Set(reflect.ValueOf(value))
		case float64:
			value = aclnn.Float(v)
			if f.Kind() != reflect.Struct {
				value = reflect.ValueOf(v).Convert(f.Type()).Interface()
			}
			f.Set(reflect.ValueOf(value))
		default:
			f.Set(reflect.ValueOf(value))
		}
	}
	return a
}

const side = 1024

// data makes the tensors of a case, [1024,1024] if no shape is given.
type data struct {
	testing.TB
	st   *acl.Stream
	rand *rand.Rand
}

func (d *data) tensor(dt aclnn.DType, shape []int64, next func() float64) *aclnn.Tensor {
	if len(shape) == 0 {
		shape = []int64{side, side}
	}
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	var x *aclnn.Tensor
	var err error
	switch ctx := context.Background(); dt {
	case i64, i32, u8:
		x, err = aclnn.FromSlice(ctx, d.st, dt, values(n, func() int64 { return int64(next()) }), shape...)
	case yes:
		x, err = aclnn.FromSlice(ctx, d.st, dt, values(n, func() bool { return next() != 0 }), shape...)
	case aclnn.Complex64:
		x, err = aclnn.FromSlice(ctx, d.st, dt, values(n, func() complex64 { return complex(float32(next()), 0) }), shape...)
	default:
		x, err = aclnn.FromSlice(ctx, d.st, dt, values(n, next), shape...)
	}
	require.NoError(d, err)
	d.Cleanup(func() { require.NoError(d, x.Close()) })
	return x
}

func values[T any](n int64, next func() T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = next()
	}
	return v
}

func (d *data) normal(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	return d.tensor(dt, shape, d.rand.NormFloat64)
}

func (d *data) uniform(dt aclnn.DType, low, high float64, shape ...int64) *aclnn.Tensor {
	return d.tensor(dt, shape, func() float64 { return low + (high-low)*d.rand.Float64() })
}

// ints are from 0 up to and without end.
func (d *data) ints(dt aclnn.DType, end int, shape ...int64) *aclnn.Tensor {
	return d.tensor(dt, shape, func() float64 { return float64(d.rand.IntN(end)) })
}

func (d *data) full(dt aclnn.DType, v float64, shape ...int64) *aclnn.Tensor {
	return d.tensor(dt, shape, func() float64 { return v })
}

// out is a tensor for results, whose memory has been written to before.
func (d *data) out(dt aclnn.DType, shape ...int64) *aclnn.Tensor { return d.full(dt, 0, shape...) }

// ascending is 0, 1, 2, …
func (d *data) ascending(dt aclnn.DType, n int64) *aclnn.Tensor {
	i := -1.
	return d.tensor(dt, []int64{n}, func() float64 { i++; return i })
}

// order is a permutation of 0 to n-1.
func (d *data) order(dt aclnn.DType, n int64) *aclnn.Tensor {
	p, i := d.rand.Perm(int(n)), -1
	return d.tensor(dt, []int64{n}, func() float64 { i++; return float64(p[i]) })
}

func ints(v ...int64) []int64 { return v }

var (
	f32  = aclnn.Float32
	f16  = aclnn.Float16
	bf16 = aclnn.BFloat16
	f64  = aclnn.Float64
	i64  = aclnn.Int64
	i32  = aclnn.Int32
	u8   = aclnn.Uint8
	yes  = aclnn.Bool
)

// named gives a case the name of PyTorch's function and its dtype.
func named(name string, dt aclnn.DType) string { return fmt.Sprintf("%s.%v", name, dt) }
