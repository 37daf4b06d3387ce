package op

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

func tensorOf(d dtype.Type, shape ...int64) *Tensor {
	return &Tensor{DType: d, Format: dtype.ND, Shape: shape, Strides: ContiguousStrides(shape), Storage: shape}
}

// refused returns the code with which a chip's rules refuse a call, or 0.
func refused(t *testing.T, chip acceptance.Chip, name string, args ...any) (int32, string) {
	t.Helper()
	o := Find(name)
	require.NotNil(t, o, name)
	accept := func(*Call) (Run, error) { return func(*Exec) error { return nil }, nil }
	_, err := NewExecutor(accept, NewCall(o, args, Env{Chip: chip}))
	var e *Error
	if errors.As(err, &e) {
		return e.Code, e.Text
	}
	require.NoError(t, err)
	return 0, ""
}

func TestAcceptance(t *testing.T) {
	f32, f16, i32, bf16, u32 := dtype.Float32, dtype.Float16, dtype.Int32, dtype.BFloat16, dtype.Uint32
	for name, c := range map[string]struct {
		chip acceptance.Chip
		op   string
		args []any
		code int32
		text string
	}{
		"accepted":               {0, "Abs", []any{tensorOf(f32, 2, 3), tensorOf(f32, 2, 3)}, 0, ""},
		"null before dtype":      {0, "Abs", []any{tensorOf(u32, 2), nil}, NullPointer, "out is null"},
		"null with its own code": {0, "Sinc", []any{nil, tensorOf(f32, 2)}, 561103, "self is null"},
		"dtype":                  {0, "Abs", []any{tensorOf(u32, 2), tensorOf(u32, 2)}, InvalidParam, "self uint32[2]ND has a dtype that is not supported"},
		"dtype before shape":     {0, "Abs", []any{tensorOf(u32, 2), tensorOf(u32, 3)}, InvalidParam, "not supported"},
		"another output dtype":   {0, "Abs", []any{tensorOf(f32, 2), tensorOf(f16, 2)}, InvalidParam, "self is float32 and the element type of out is float16; the element type of self must be the element type of out"},
		"shapes":                 {0, "Abs", []any{tensorOf(f32, 2), tensorOf(f32, 3)}, InvalidParam, "shapes differ: self float32[2]ND and out float32[3]ND"},
		"rank":                   {0, "Abs", []any{tensorOf(f32, 1, 1, 1, 1, 1, 1, 1, 1, 1), tensorOf(f32, 1)}, InvalidParam, "at most 8 are supported"},
		"bfloat16 on 910B":       {acceptance.Ascend910B, "Abs", []any{tensorOf(bf16, 2), tensorOf(bf16, 2)}, 0, ""},
		"bfloat16 on 910":        {acceptance.Ascend910, "Abs", []any{tensorOf(bf16, 2), tensorOf(bf16, 2)}, InvalidParam, "bfloat16"},
		"bfloat16 on 310P":       {acceptance.Ascend310P, "Abs", []any{tensorOf(bf16, 2), tensorOf(bf16, 2)}, InvalidParam, "bfloat16"},
		"broadcast":              {0, "Add", []any{tensorOf(f32, 2, 1), tensorOf(f32, 3), &Scalar{DType: f32}, tensorOf(f32, 2, 3)}, 0, ""},
		"no common shape":        {0, "Add", []any{tensorOf(f32, 2), tensorOf(f32, 3), &Scalar{DType: f32}, tensorOf(f32, 3)}, InvalidParam, "must broadcast"},
		"not the common shape":   {0, "Add", []any{tensorOf(f32, 2, 1), tensorOf(f32, 3), &Scalar{DType: f32}, tensorOf(f32, 3, 2)}, InvalidParam, ""},
		"no common dtype":        {0, "Add", []any{tensorOf(u32, 2), tensorOf(f32, 2), &Scalar{DType: f32}, tensorOf(f32, 2)}, InvalidParam, ""},
		"result does not fit":    {0, "Add", []any{tensorOf(f32, 2), tensorOf(f32, 2), &Scalar{DType: f32}, tensorOf(i32, 2)}, InvalidParam, ""},
		"null list":              {0, "Amax", []any{tensorOf(f32, 2, 4), nil, true, tensorOf(f32, 1, 4)}, NullPointer, "dim is null"},
		"uint16 where not":       {0, "Acosh", []any{tensorOf(dtype.Uint16, 2), tensorOf(f32, 2)}, InvalidParam, "uint16"},
	} {
		t.Run(name, func(t *testing.T) {
			code, text := refused(t, c.chip, c.op, c.args...)
			assert.Equal(t, c.code, code, text)
			assert.Contains(t, text, c.text)
		})
	}
}

// A chip without the operator refuses what the operator takes elsewhere, with the code of the source's
// check of the chip or, if there is none, with that of a kernel that is not found. Null arguments and
// empty tensors are answered before.
func TestAbsentOperators(t *testing.T) {
	f16 := dtype.Float16
	x, empty := tensorOf(f16, 2), tensorOf(f16, 0)
	for name, c := range map[string]struct {
		op      string
		args    []any
		chip    acceptance.Chip
		absence int32
	}{
		"no kernel":           {"QuantMax", []any{x, tensorOf(dtype.Float32, 1), "rint", int64(dtype.Float8E4M3), tensorOf(dtype.Float8E4M3, 2), tensorOf(f16, 1)}, acceptance.Ascend950, NoKernel},
		"the source's check":  {"Square", []any{x, tensorOf(f16, 2)}, acceptance.Ascend950, InvalidParam},
		"no rules":            {"MrgbaCustom", []any{x, x, x}, acceptance.Ascend310P, NoKernel},
		"another source code": {"Bucketize", []any{x, x, false, false, tensorOf(dtype.Int64, 2)}, acceptance.Ascend950, 561000},
		"of the 910_93":       {"ElasticReceivableTest", []any{x, "group", int64(2), int64(2)}, acceptance.Ascend910_93, NoKernel},
		"not of the 950":      {"Cummax", []any{x, int64(0), x, tensorOf(dtype.Int64, 2)}, acceptance.Ascend910B, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, c.args, len(Find(c.op).Params))
			code, text := refused(t, c.chip, c.op, c.args...)
			assert.Zero(t, code, text)
			code, text = refused(t, acceptance.Ascend910B, c.op, c.args...)
			assert.Equal(t, c.absence, code, text)
			if code != 0 {
				assert.Contains(t, text, "the Ascend910B does not have the operator")
			}
		})
	}
	code, text := refused(t, acceptance.Ascend950, "Cummax", x, int64(0), x, tensorOf(dtype.Int64, 2))
	assert.Equal(t, NoKernel, code, text)
	code, text = refused(t, 0, "QuantMax", nil, nil, nil, int64(0), nil, nil)
	assert.Equal(t, NullPointer, code, text)
	code, text = refused(t, acceptance.Ascend950, "Cummax", empty, int64(0), empty, tensorOf(dtype.Int64, 0))
	assert.Zero(t, code, text)
}

// The operator's own refusal has better words, but not another code.
func TestRefusalOfOperatorAndRules(t *testing.T) {
	o := Find("Abs")
	call := func() *Call { return NewCall(o, []any{tensorOf(dtype.Uint32, 2), tensorOf(dtype.Uint32, 2)}, Env{}) }
	for code, want := range map[int32]string{InvalidParam: "in own words", NullPointer: "not supported"} {
		_, err := NewExecutor(func(c *Call) (Run, error) { c.Fail(code, "in own words"); return nil, nil }, call())
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, InvalidParam, e.Code)
		assert.Contains(t, e.Text, want)
	}
}

func BenchmarkAcceptance(b *testing.B) {
	for name, args := range map[string][]any{
		"Abs": {tensorOf(dtype.Float32, 2, 3), tensorOf(dtype.Float32, 2, 3)},
		"Add": {tensorOf(dtype.Float32, 2, 1), tensorOf(dtype.Float32, 3), &Scalar{DType: dtype.Float32}, tensorOf(dtype.Float32, 2, 3)},
	} {
		b.Run(name, func(b *testing.B) {
			c := NewCall(Find(name), args, Env{})
			b.ReportAllocs()
			for b.Loop() {
				if c.refusal() != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

// conditionOf parses a condition whose arguments are those of TestConditions.
func conditionOf(t *testing.T, text string) *acceptance.Node {
	t.Helper()
	n, err := acceptance.Parse(text)
	require.NoError(t, err)
	var index func(n *acceptance.Node)
	index = func(n *acceptance.Node) {
		if n.Op == acceptance.Argument {
			n.Index = map[string]int{"x": 0, "ints": 1, "real": 2}[n.Name]
		}
		for _, a := range n.Args {
			index(a)
		}
	}
	index(n)
	return n
}

// Conditions are calculated in integers of 64 bits, as in CANN's C code.
func TestConditions(t *testing.T) {
	const huge = int64(1)<<53 + 1
	args := []any{tensorOf(dtype.Float32, huge, 3, 2), []int64{huge, 0, 1 << 62, -7}, 0.5}
	for text, want := range map[string]bool{
		"(eq (dim (view x) 0) 9007199254740993":                       true,
		"(eq (dim (view x) 0) 9007199254740992":                       false,
		"(eq (at ints 0) (- (+ (at ints 0) 1) 1":                      true,
		"(eq (prod (view x) 0 2) 27021597764222979":                   true,
		"(in (at ints 0) 1 9007199254740992":                          false,
		"(in (at ints 0) 1 9007199254740993":                          true,
		"(eq (/ (at ints 3) 2) -3":                                    true,
		"(eq (% (at ints 0) 2) 1":                                     true,
		"(eq (trunc (quot (at ints 3) 2)) -3":                         true,
		"(lt (quot (at ints 3) 2) #-3.25":                             true,
		"(gt (* real (dim (view x) 1)) 1":                             true,
		"(sheq (view x) (shape (at ints 0) 3 (/ 5 2":                  true,
		"(sheq (view x) (shape (- (at ints 0) 1) 3 2":                 false,
		"(any $1 0 (rank (view x)) (gt (dim (view x) $1) (at ints 2)": false,
	} {
		x := condition{call: &Call{args: args}}
		v, ok := x.value(conditionOf(t, text))
		require.True(t, ok, text)
		assert.Equal(t, want, v.True(), text)
		assert.NoError(t, x.undefined, text)
	}
	for text, want := range map[string]error{
		"(eq (/ 1 (at ints 1)) 0":                        acceptance.ErrZero,
		"(eq (% (at ints 0) (at ints 1)) 0":              acceptance.ErrZero,
		"(or (eq (* (at ints 2) 4) 0) (null x":           acceptance.ErrOverflow,
		"(gt (+ (at ints 2) (* (at ints 2) 1)) 0":        acceptance.ErrOverflow,
		"(eq (prod (shape 4294967296 3037000500) 0 2) 0": acceptance.ErrOverflow,
	} {
		x := condition{call: &Call{args: args}}
		_, ok := x.value(conditionOf(t, text))
		assert.False(t, ok, text)
		assert.Equal(t, want, x.undefined, text)
	}
}

// A check that divides by zero, or overflows, ends CANN's process or goes on with any number. The call is refused
// by name, unless the operator refuses it for a reason of its own.
func TestUndefinedChecks(t *testing.T) {
	o := Find("Abs")
	divides := &checklist{rules: []acceptance.Rule{{Code: InvalidParam, Cond: conditionOf(t, "(gt (/ 8 (dim (view x) 0)) 8")}}}
	const chip = acceptance.Chip('!')
	checklists[chip].Store(o, divides)
	t.Cleanup(func() { checklists[chip].Delete(o) })
	code, text := refused(t, chip, "Abs", tensorOf(dtype.Float32, 2), tensorOf(dtype.Float32, 2))
	assert.Zero(t, code, text)
	code, text = refused(t, chip, "Abs", tensorOf(dtype.Float32, 0), tensorOf(dtype.Float32, 0))
	assert.EqualValues(t, abi.ACLNN_ERR_INNER, code)
	assert.Contains(t, text, "8 divided by dimension 0 of x, which is undefined in C: division by zero")
	_, err := NewExecutor(func(c *Call) (Run, error) { c.Invalid("in own words"); return nil, c.Err() },
		NewCall(o, []any{tensorOf(dtype.Float32, 0), tensorOf(dtype.Float32, 0)}, Env{Chip: chip}))
	require.ErrorContains(t, err, "in own words")
}

// CANN returns before it checks more when a tensor is empty, so the operator's own checks, which
// are stricter here, do not count.
func TestIdleCalls(t *testing.T) {
	o := Find("Softmax")
	strict := func(c *Call) (Run, error) { c.Invalid("the operator refuses"); return nil, c.Err() }
	e, err := NewExecutor(strict, NewCall(o, []any{tensorOf(dtype.Float32, 2, 0), int64(0), tensorOf(dtype.Float32, 2, 3)}, Env{}))
	require.NoError(t, err)
	require.NoError(t, e.Execute(nil, 0, e.Run))
	again, err := e.Again()
	require.NoError(t, err)
	require.NoError(t, again.Execute(nil, 0, again.Run))
	_, err = NewExecutor(strict, NewCall(o, []any{tensorOf(dtype.Float32, 2, 3), int64(0), tensorOf(dtype.Float32, 2, 3)}, Env{}))
	require.ErrorContains(t, err, "the operator refuses")
}
