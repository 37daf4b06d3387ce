package smoke

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/ops"
)

// bench runs a case on a stream, in one dtype. After its first error it does nothing more: the device
// may not work.
type bench struct {
	*ops.Registry
	ctx    context.Context
	cfg    *Config
	st     *acl.Stream
	c      *golden
	dt     aclnn.DType
	report func(message)
	made   []*aclnn.Tensor
	err    error
}

// fail keeps the first error.
func (b *bench) fail(err error) bool {
	if b.err == nil {
		b.err = err
	}
	return b.err != nil
}

// close frees the tensors of the case.
func (b *bench) close() error {
	var errs []error
	for _, t := range b.made {
		errs = append(errs, t.Close())
	}
	b.made = nil
	return errors.Join(errs...)
}

// empty makes a tensor for a result, of bytes that no result has.
func (b *bench) empty(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	if b.err != nil {
		return new(aclnn.Tensor)
	}
	t, err := aclnn.New(b.st, dt, shape...)
	if b.fail(err) {
		return new(aclnn.Tensor)
	}
	b.made = append(b.made, t)
	b.fail(b.st.Memset(t.Buffer(), 0xff, t.Buffer().Size()))
	return t
}

// like makes a tensor for a result with the shape of another.
func (b *bench) like(t *aclnn.Tensor) *aclnn.Tensor { return b.empty(t.DType(), t.Shape()...) }

// floats makes a tensor of values, rounded to its dtype.
func (b *bench) floats(dt aclnn.DType, values []float32, shape ...int64) *aclnn.Tensor {
	t := b.empty(dt, shape...)
	if b.err != nil {
		return t
	}
	switch dt {
	case aclnn.BFloat16:
		b.fail(aclnn.CopyToDevice(b.ctx, b.st, t, convert(values, half.BFloat16FromFloat32)))
	case aclnn.Float16:
		b.fail(aclnn.CopyToDevice(b.ctx, b.st, t, convert(values, half.Float16FromFloat32)))
	default:
		b.fail(aclnn.CopyToDevice(b.ctx, b.st, t, values))
	}
	return t
}

func convert[S, D any](values []S, f func(S) D) []D {
	out := make([]D, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

// upload makes a tensor of integers or bytes.
func upload[T acl.Element](b *bench, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	t := b.empty(dt, shape...)
	if b.err == nil {
		b.fail(aclnn.CopyToDevice(b.ctx, b.st, t, values))
	}
	return t
}

// values reads a tensor of the case.
func values[T safetensors.Element](b *bench, name string) []T {
	t, err := b.c.tensor(name)
	if b.fail(err) {
		return nil
	}
	v, err := safetensors.Values[T](t)
	b.fail(err)
	return v
}

func (b *bench) want(name string) []float32 { return values[float32](b, name) }

func (b *bench) shape(name string) []int64 {
	t, err := b.c.tensor(name)
	if b.fail(err) {
		return nil
	}
	return convert(t.Shape, func(n int) int64 { return int64(n) })
}

// in makes a tensor of the case in the dtype of the bench, and as makes it in another one.
func (b *bench) in(name string) *aclnn.Tensor { return b.as(b.dt, name) }

func (b *bench) as(dt aclnn.DType, name string) *aclnn.Tensor {
	return b.floats(dt, b.want(name), b.shape(name)...)
}

func (b *bench) int(name string) (v int64) {
	b.fail(b.c.option(name, &v))
	return v
}

func (b *bench) ints(name string) (v []int64) {
	b.fail(b.c.option(name, &v))
	return v
}

func (b *bench) float(name string) (v float64) {
	b.fail(b.c.option(name, &v))
	return v
}

func (b *bench) flag(name string) (v bool) {
	b.fail(b.c.option(name, &v))
	return v
}

func (b *bench) text(name string) (v string) {
	b.fail(b.c.option(name, &v))
	return v
}

// random makes a tensor of reproducible values that its dtype has, and returns them.
func (b *bench) random(seed uint64, shape ...int64) (*aclnn.Tensor, []float64) {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	rng := rand.New(rand.NewPCG(seed, 15))
	v := make([]float32, n)
	for i := range v {
		v[i] = half.BFloat16FromFloat32(float32(rng.NormFloat64())).Float32()
	}
	return b.floats(b.dt, v, shape...), convert(v, func(x float32) float64 { return float64(x) })
}

// limit is the ratio of error that a dtype allows. A reference that was computed for inputs which the
// dtype rounds is met less closely.
func (b *bench) limit() float64 {
	switch {
	case b.dt == aclnn.Float32:
		return 1e-4
	case b.c != nil && b.c.DType != b.dt:
		return 4e-2
	}
	return 1.5e-2
}

// output is a result of a kernel and its reference.
type output struct {
	name  string
	t     *aclnn.Tensor
	want  []float32
	limit float64
}

// out is a result of the usual precision.
func (b *bench) out(name string, t *aclnn.Tensor, want []float32) output {
	return output{name, t, want, b.limit()}
}

// read returns the values of a tensor, which may be a view.
func (b *bench) read(t *aclnn.Tensor) ([]float32, error) {
	wide, err := aclnn.New(b.st, aclnn.Float32, t.Shape()...)
	if err != nil {
		return nil, err
	}
	v := make([]float32, t.Len())
	if err = aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{Self: wide, Src: t}); err == nil {
		err = aclnn.CopyFromDevice(b.ctx, b.st, v, wide)
	}
	return v, errors.Join(err, wide.Close())
}

// ratio returns rms(got-want)/rms(want), or infinity where one of them alone is not a number.
func ratio(got, want []float32) (float64, error) {
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d elements, and the reference has %d", len(got), len(want))
	}
	var difference, size float64
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			if !math.IsInf(w, 0) && !math.IsNaN(w) {
				size += w * w
			}
			continue
		}
		if math.IsNaN(g) || math.IsNaN(w) || math.IsInf(g, 0) || math.IsInf(w, 0) {
			return math.MaxFloat64, fmt.Errorf("element %d is %v and should be %v", i, g, w)
		}
		difference += (g - w) * (g - w)
		size += w * w
	}
	switch {
	case difference == 0:
		return 0, nil
	case size == 0:
		return math.MaxFloat64, errors.New("the reference is zero and the result is not")
	}
	return math.Sqrt(difference / size), nil
}
