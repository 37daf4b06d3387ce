package acceptance

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Arithmetic is that of C's 64-bit integers: exact beyond 2^53, truncated division, and an error where
// C leaves the result undefined.
func TestCalculateIntegers(t *testing.T) {
	const most, least, big = int64(math.MaxInt64), int64(math.MinInt64), int64(1)<<53 + 1
	for _, c := range []struct {
		op   Op
		a, b int64
		want int64
		err  error
	}{
		{Add, big, 1, big + 1, nil}, {Add, most, 1, 0, ErrOverflow}, {Add, least, -1, 0, ErrOverflow}, {Add, most, least, -1, nil}, {Add, most, 0, most, nil},
		{Subtract, big, 1, big - 1, nil}, {Subtract, least, 1, 0, ErrOverflow}, {Subtract, 0, least, 0, ErrOverflow}, {Subtract, -1, least, most, nil}, {Subtract, least, 0, least, nil},
		{Multiply, big, 3, 3 * big, nil}, {Multiply, 1 << 32, 1 << 31, 0, ErrOverflow}, {Multiply, -1 << 32, 1 << 31, least, nil}, {Multiply, least, -1, 0, ErrOverflow},
		{Multiply, least, 1, least, nil}, {Multiply, most, 0, 0, nil}, {Multiply, -most, -1, most, nil},
		{Divide, big, 1, big, nil}, {Divide, -7, 2, -3, nil}, {Divide, most, 2, 1<<62 - 1, nil}, {Divide, 1, 0, 0, ErrZero}, {Divide, least, -1, 0, ErrOverflow},
		{Remainder, big, 2, 1, nil}, {Remainder, -7, 2, -1, nil}, {Remainder, 7, -2, 1, nil}, {Remainder, 1, 0, 0, ErrZero}, {Remainder, least, -1, 0, ErrOverflow},
		{Equal, big, big - 1, 0, nil}, {Unequal, big, big - 1, 1, nil}, {Less, big - 1, big, 1, nil}, {AtMost, big, big - 1, 0, nil}, {Greater, big, big - 1, 1, nil}, {AtLeast, big - 1, big, 0, nil},
	} {
		v, err := Calculate(c.op, Integer(c.a), Integer(c.b))
		assert.Equal(t, c.err, err, "%s %d %d", names[c.op], c.a, c.b)
		assert.Equal(t, Integer(c.want), v, "%s %d %d", names[c.op], c.a, c.b)
	}
}

// A number with a fraction makes the operation one of doubles, and Quotient always is one.
func TestCalculateReals(t *testing.T) {
	for _, c := range []struct {
		op   Op
		a, b Value
		want Value
	}{
		{Quotient, Integer(1), Integer(4), Real(0.25)}, {Quotient, Integer(1), Integer(0), Real(math.Inf(1))}, {Multiply, Integer(3), Real(0.5), Real(1.5)},
		{AtLeast, Real(0.02), Integer(0), Integer(1)}, {Equal, Real(2), Integer(2), Integer(1)}, {Divide, Real(7), Integer(2), Real(3)},
	} {
		v, err := Calculate(c.op, c.a, c.b)
		require.NoError(t, err)
		assert.Equal(t, c.want, v, "%s %v %v", names[c.op], c.a, c.b)
	}
	_, err := Calculate(Divide, Real(1), Integer(0))
	assert.Equal(t, ErrZero, err)
	_, err = Calculate(And, Integer(1), Integer(1))
	assert.Error(t, err, "no arithmetic")
}

// Constants of the tables keep all their bits.
func TestConstants(t *testing.T) {
	for text, want := range map[string]Value{
		"9223372036854775807": Integer(math.MaxInt64), "-9223372036854775808": Integer(math.MinInt64), "#0.02": Real(0.02), "#1e-05": Real(1e-5), "f16": Integer(1),
	} {
		n, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, n.Value, text)
	}
}

func FuzzCalculate(f *testing.F) {
	f.Add(int64(math.MinInt64), int64(-1))
	f.Add(int64(1)<<53+1, int64(3))
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := big.NewInt(a), big.NewInt(b)
		for op, exact := range map[Op]func(z *big.Int) *big.Int{
			Add: func(z *big.Int) *big.Int { return z.Add(x, y) }, Subtract: func(z *big.Int) *big.Int { return z.Sub(x, y) },
			Multiply: func(z *big.Int) *big.Int { return z.Mul(x, y) }, Divide: func(z *big.Int) *big.Int { return z.Quo(x, y) },
			Remainder: func(z *big.Int) *big.Int { return z.Rem(x, y) },
		} {
			v, err := Calculate(op, Integer(a), Integer(b))
			switch {
			case b == 0 && (op == Divide || op == Remainder):
				require.Equal(t, ErrZero, err)
			case err != nil: // of the remainder of the least number by -1 C computes the quotient, too
				require.True(t, !exact(new(big.Int)).IsInt64() || op == Remainder && b == -1, "%d %s %d", a, names[op], b)
			default:
				require.Equal(t, exact(new(big.Int)), big.NewInt(v.Int), "%d %s %d", a, names[op], b)
			}
		}
	})
}
