package op

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

// expression matches the form in which conditions stand in the tables.
var expression = regexp.MustCompile(`\((and|or|not|if|eq|ne|lt|le|gt|ge|[-+*/%]|quot|trunc|prod|promoted?|in|null|dt|fmt|empty|count|at|number|offset|view|storage|rank|dim|len|broadcast|bcok|sheq|shape|append|set|private|cast|bytes|samestr|any) |\$\d|dtype\(|format\(`)

// Whatever rule a call breaks, the text names a parameter or the chip, and has words for all of it.
func TestEveryRuleHasWords(t *testing.T) {
	texts, expressions, random := make(map[string]bool), 0, rand.New(rand.NewPCG(1, 2))
	for i := range Operators {
		o := &Operators[i]
		about := "the Ascend|every call"
		for _, p := range o.Params {
			about += "|" + regexp.QuoteMeta(p.Name)
		}
		subject := regexp.MustCompile(`\b(` + about + `)`)
		for _, chip := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend910B, acceptance.Ascend910_93, acceptance.Ascend310P, acceptance.Ascend950} {
			for _, rule := range checklistOf(o, chip).rules {
				if rule.Code == 0 || rule.Code == acceptance.Idle || rule.Code == acceptance.Vacuous {
					continue
				}
				for _, args := range [][]any{nulls(o), some(o), mixed(o, random), mixed(o, random)} {
					text := NewCall(o, args, Env{Chip: chip}).explain(rule.Cond)
					if texts[text] {
						continue
					}
					if !assert.NotRegexp(t, expression, text, "%s: %v", o.Name, rule.Cond) {
						expressions++
					}
					assert.Regexp(t, subject, text, "%s: %v", o.Name, rule.Cond)
					texts[text] = true
				}
			}
		}
	}
	t.Logf("%d of %d different texts have expressions", expressions, len(texts))
	require.Greater(t, len(texts), 1000)
}

// mixed returns arguments of which some are null.
func mixed(o *Operator, random *rand.Rand) []any {
	args, null := some(o), nulls(o)
	for i := range args {
		if random.IntN(3) == 0 {
			args[i] = null[i]
		}
	}
	return args
}

// nulls returns arguments that are null or zero.
func nulls(o *Operator) []any {
	args := make([]any, len(o.Params))
	for i, p := range o.Params {
		switch p.Class {
		case IntClass, PointerClass:
			args[i] = int64(0)
		case DoubleClass, FloatClass:
			args[i] = 0.0
		case BoolClass:
			args[i] = false
		}
	}
	return args
}

// some returns arguments that are given.
func some(o *Operator) []any {
	args := nulls(o)
	for i, p := range o.Params {
		switch p.Class {
		case TensorClass:
			args[i] = tensorOf(dtype.Float32, 2, 3, 4)
		case TensorListClass:
			args[i] = []*Tensor{tensorOf(dtype.Float16, 2, 3), tensorOf(dtype.Int32, 4)}
		case ScalarClass:
			args[i] = &Scalar{DType: dtype.Float32}
		case ScalarListClass:
			args[i] = []*Scalar{{DType: dtype.Int64}}
		case IntArrayClass:
			args[i] = []int64{1, 2}
		case FloatArrayClass:
			args[i] = []float32{0.5}
		case BoolArrayClass:
			args[i] = []bool{true, false, true}
		case StringClass:
			args[i] = "text"
		case BoolClass:
			args[i] = true
		case IntClass:
			args[i] = int64(3)
		}
	}
	return args
}

// What calls have, what CANN takes, and under which condition.
func TestWordsOfRefusals(t *testing.T) {
	args := []any{tensorOf(dtype.Float32, 2, 3, 4), []int64{5, 1}, 0.5}
	for text, want := range map[string]string{
		"(ne (dim (view x) 1) (at ints 0":                          "dimension 1 of x is 3 and ints[0] is 5; dimension 1 of x must be ints[0] (5)",
		"(gt (rank (view x)) 2":                                    "the number of dimensions of x is 3; it must be at most 2",
		"(and (ne (rank (view x)) 0) (eq 1 (at ints 1":             "the number of dimensions of x is 3 and ints[1] is 1; ints[1] must not be 1",
		"(not (and (eq (dt x) f32) (eq (rank (view x)) 2":          "the number of dimensions of x is 3; it must be 2",
		"(not (or (eq (dt x) f16) (eq (rank (view x)) 2":           "the element type of x is float32 and the number of dimensions of x is 3; the element type of x must be float16, or the number of dimensions of x must be 2",
		"(or (null x) (lt real 1":                                  "real is 0.5; it must be at least 1",
		"(not (sheq (view x) (shape 2 (at ints 0) 4":               "the shape of x is [2,3,4]; it must be [2,5,4] (from ints)",
		"(any $1 0 (rank (view x)) (gt (dim (view x) $1) 3":        "dimension 2 of x is 4; it must be at most 3",
		"(not (in (count ints) 4 5":                                "the number of elements of ints is 2; it must be one of [4 5]",
		"(ne (% (dim (view x) -1) 3) 0":                            "the remainder of the last dimension of x by 3 is 1; it must be 0",
		"(not (bcok (view x) (shape 7":                             "the shape of x is [2,3,4]; the shape of x and [7] must broadcast: sizes are equal, or one of them is 1",
		"(not (cast (dt x) i32":                                    "the element type of x is float32; it must be storable as int32",
		"(if (null x) (lt real 9) (gt (+ (dim (view x) 0) real) 1": "dimension 0 of x plus real is 2.5; it must be at most 1",
	} {
		c := &Call{Op: &Operator{Name: "X"}, args: args}
		w := wording{condition{call: c}}
		n := conditionOf(t, text)
		v, ok := w.x.value(n)
		require.True(t, ok && v.True(), text)
		assert.Equal(t, want, w.refusal(n), text)
	}
}
