package dtype

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// enumerators returns the members of a C enum by value.
func enumerators(t *testing.T, enum string) map[int32]string {
	t.Helper()
	table, err := abi.Load()
	require.NoError(t, err)
	found := map[int32]string{}
	for _, c := range table.Constants {
		if c.Enum == enum {
			v, err := strconv.ParseInt(c.Value, 10, 32)
			require.NoError(t, err, c.Name)
			found[int32(v)] = c.Name
		}
	}
	require.NotEmpty(t, found)
	return found
}

// Both tables must contain exactly the values of CANN's enum.
func TestTypesAreAclDataType(t *testing.T) {
	want := enumerators(t, "aclDataType")
	delete(want, 42) // ACL_HIFLOAT4, which 9.0.0 alone has, and no document or operator of it
	for v, name := range want {
		assert.Contains(t, names, Type(v), name)
	}
	assert.Len(t, names, len(want))
	for got, name := range map[Type]int32{
		Float32: abi.ACL_FLOAT, Float16: abi.ACL_FLOAT16, BFloat16: abi.ACL_BF16, Float64: abi.ACL_DOUBLE,
		Bool: abi.ACL_BOOL, Int64: abi.ACL_INT64, Uint8: abi.ACL_UINT8, Complex64: abi.ACL_COMPLEX64,
		Float8E4M3: abi.ACL_FLOAT8_E4M3FN, HiFloat8: abi.ACL_HIFLOAT8, Undefined: abi.ACL_DT_UNDEFINED,
	} {
		assert.Equal(t, Type(name), got)
	}
}

func TestFormatsAreAclFormat(t *testing.T) {
	want := enumerators(t, "aclFormat")
	for v, name := range want {
		assert.Equal(t, strings.TrimPrefix(strings.TrimPrefix(name, "ACL_"), "FORMAT_"), formatNames[Format(v)], name)
	}
	var extra []Format
	for f := range formatNames {
		if _, ok := want[int32(f)]; !ok {
			extra = append(extra, f)
		}
	}
	slices.Sort(extra)
	assert.Empty(t, extra, "formats CANN does not have")
}

func TestRange(t *testing.T) {
	for d, want := range map[Type][2]float64{
		Int4: {-8, 7}, Int8: {math.MinInt8, math.MaxInt8}, Int16: {math.MinInt16, math.MaxInt16}, Int32: {math.MinInt32, math.MaxInt32}, Int64: {math.MinInt64, math.MaxInt64},
		Uint1: {0, 1}, Uint8: {0, math.MaxUint8}, Uint16: {0, math.MaxUint16}, Uint32: {0, math.MaxUint32}, Uint64: {0, math.MaxUint64},
		Float16: {-65504, 65504}, Float32: {-math.MaxFloat32, math.MaxFloat32}, Float64: {-math.MaxFloat64, math.MaxFloat64},
		BFloat16: {-float64(math.Float32frombits(0x7f7f0000)), float64(math.Float32frombits(0x7f7f0000))}, Bool: {math.Inf(-1), math.Inf(1)}, Complex64: {math.Inf(-1), math.Inf(1)},
	} {
		least, most := d.Range()
		assert.Equal(t, want, [2]float64{least, most}, d)
	}
}
