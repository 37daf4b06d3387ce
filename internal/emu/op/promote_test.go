package op_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

func TestPromotion(t *testing.T) {
	for _, c := range []struct{ a, b, want dtype.Type }{
		{dtype.Float32, dtype.Float16, dtype.Float32}, {dtype.Float16, dtype.BFloat16, dtype.Float32}, {dtype.Int64, dtype.Float16, dtype.Float16},
		{dtype.Uint8, dtype.Int8, dtype.Int16}, {dtype.Uint8, dtype.Int32, dtype.Int32}, {dtype.Uint32, dtype.Int32, dtype.Int64},
		{dtype.Bool, dtype.Uint8, dtype.Uint8}, {dtype.Complex64, dtype.Float64, dtype.Complex128}, {dtype.Complex32, dtype.Int64, dtype.Complex32},
		{dtype.Float64, dtype.Bool, dtype.Float64}, {dtype.Int16, dtype.Int16, dtype.Int16},
	} {
		assert.Equal(t, c.want, op.Promote(c.a, c.b), "%v with %v", c.a, c.b)
		assert.Equal(t, c.want, op.Promote(c.b, c.a), "%v with %v", c.b, c.a)
	}
	assert.Equal(t, dtype.Float16, op.PromoteScalar(dtype.Float16, dtype.Float64))
	assert.Equal(t, dtype.Float32, op.PromoteScalar(dtype.Int64, dtype.Float64))
	assert.Equal(t, dtype.Int64, op.PromoteScalar(dtype.Bool, dtype.Int32))
}
