package acceptance

import (
	"errors"
	"math"
	"math/bits"
)

// Value is a number in a condition, as C has it: an int64 or a double. Conditions are 1 or 0.
type Value struct {
	Int    int64
	Real   float64
	IsReal bool
}

// Integer returns an integer value.
func Integer(n int64) Value { return Value{Int: n} }

// Real returns a value with a fraction.
func Real(f float64) Value { return Value{Real: f, IsReal: true} }

// Truth returns the value of a condition.
func Truth(b bool) Value { return Value{Int: number(b)} }

// True reports whether the value is not 0.
func (v Value) True() bool { return v.Int != 0 || v.Real != 0 }

// Float returns the value as C converts it to double.
func (v Value) Float() float64 {
	if v.IsReal {
		return v.Real
	}
	return float64(v.Int)
}

// Truncated is the number without its fraction, as C converts it to an integer of 64 bits, and whether that has room for it.
func (v Value) Truncated() (Value, bool) {
	if !v.IsReal {
		return v, true
	}
	return Integer(int64(v.Real)), math.Abs(v.Real) < 1<<63
}

// Errors of Calculate: what C leaves undefined.
var (
	ErrZero     = errors.New("division by zero")
	ErrOverflow = errors.New("overflow of 64 bits")
)

// Calculate applies an operation of two numbers: a comparison, or arithmetic. As in C it is that of
// integers unless one of the operands has a fraction; Quotient always has one.
func Calculate(op Op, a, b Value) (Value, error) {
	if a.IsReal || b.IsReal || op == Quotient {
		return calculateReal(op, a.Float(), b.Float())
	}
	switch x, y := a.Int, b.Int; op {
	case Equal:
		return Truth(x == y), nil
	case Unequal:
		return Truth(x != y), nil
	case Less:
		return Truth(x < y), nil
	case AtMost:
		return Truth(x <= y), nil
	case Greater:
		return Truth(x > y), nil
	case AtLeast:
		return Truth(x >= y), nil
	case Add:
		sum := x + y
		return checked(sum, (sum > x) == (y > 0))
	case Subtract:
		difference := x - y
		return checked(difference, (difference < x) == (y > 0))
	case Multiply:
		return multiply(x, y)
	case Divide, Remainder:
		switch {
		case y == 0:
			return Value{}, ErrZero
		case x == math.MinInt64 && y == -1:
			return Value{}, ErrOverflow
		case op == Divide:
			return Integer(x / y), nil
		}
		return Integer(x % y), nil
	}
	return Value{}, errors.ErrUnsupported
}

func checked(n int64, fits bool) (Value, error) {
	if !fits {
		return Value{}, ErrOverflow
	}
	return Integer(n), nil
}

func multiply(x, y int64) (Value, error) {
	high, low := bits.Mul64(magnitude(x), magnitude(y))
	limit := uint64(math.MaxInt64)
	if (x < 0) != (y < 0) {
		limit++
	}
	return checked(x*y, high == 0 && low <= limit)
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// calculateReal is Calculate of doubles, whose Quotient by zero is infinite or no number.
func calculateReal(op Op, a, b float64) (Value, error) {
	switch op {
	case Equal:
		return Truth(a == b), nil
	case Unequal:
		return Truth(a != b), nil
	case Less:
		return Truth(a < b), nil
	case AtMost:
		return Truth(a <= b), nil
	case Greater:
		return Truth(a > b), nil
	case AtLeast:
		return Truth(a >= b), nil
	case Add:
		return Real(a + b), nil
	case Subtract:
		return Real(a - b), nil
	case Multiply:
		return Real(a * b), nil
	case Quotient:
		return Real(a / b), nil
	case Divide, Remainder: // of numbers that C has converted to integers
		switch {
		case b == 0:
			return Value{}, ErrZero
		case op == Divide:
			return Real(math.Trunc(a / b)), nil
		}
		return Real(math.Mod(a, b)), nil
	}
	return Value{}, errors.ErrUnsupported
}
