package acceptance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/soc"

	"github.com/goascend/cann/internal/abi"
)

var chips = []Chip{Ascend910, Ascend910B, Ascend910_93, Ascend310P, Ascend950}

// Every rule must be readable and name parameters that the operator has.
func TestEveryRule(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	params := map[string]map[string]bool{}
	for _, o := range table.Operators {
		params[o.Name] = map[string]bool{}
		for _, p := range o.Params {
			params[o.Name][p.Name] = true
		}
	}
	statuses := map[int32]bool{0: true, Idle: true, Vacuous: true, abi.ACLNN_ERR_PARAM_NULLPTR: true, abi.ACLNN_ERR_PARAM_INVALID: true, abi.ACLNN_ERR_RUNTIME_ERROR: true,
		abi.ACLNN_ERR_INNER: true, abi.ACLNN_ERR_INNER_NULLPTR: true}
	rules := 0
	for name := range index() {
		require.NotNil(t, params[name], name)
		for _, chip := range chips {
			list, err := Rules(name, chip)
			require.NoError(t, err)
			rules += len(list)
			for _, r := range list {
				assert.True(t, statuses[r.Code], "%s: code %d", name, r.Code)
				arguments(r.Cond, func(a string) { assert.True(t, params[name][a], "%s has no parameter %s", name, a) })
			}
		}
	}
	assert.Greater(t, Operators(), 450)
	assert.Greater(t, rules, 20000)
}

func arguments(n *Node, visit func(string)) {
	if n.Op == Argument {
		visit(n.Name)
	}
	for _, a := range n.Args {
		arguments(a, visit)
	}
}

// The tables have what the sources of Abs and Relu check, in their order.
func TestRulesOfAbs(t *testing.T) {
	rules, err := Rules("Abs", Ascend910B)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(rules), 7)
	assert.Equal(t, int32(abi.ACLNN_ERR_PARAM_NULLPTR), rules[0].Code)
	assert.Equal(t, "(null self)", rules[0].Cond.String())
	assert.Equal(t, "(not (in (dt self) f64 f32 f16 i64 i32 i16 i8 u8 bool bf16 c64))", rules[2].Cond.String())
	old, err := Rules("Abs", Ascend910)
	require.NoError(t, err)
	assert.Equal(t, "(not (in (dt self) f64 f32 f16 i64 i32 i16 i8 u8 bool))", old[2].Cond.String())

	source, ok := SourceOf("Abs")
	require.True(t, ok)
	assert.Equal(t, "ops-math", source.Repository)
	assert.Len(t, source.Commit, 40)
	_, ok = SourceOf("NoSuchOperator")
	assert.False(t, ok)
	rules, err = Rules("NoSuchOperator", Ascend910B)
	require.NoError(t, err)
	assert.Empty(t, rules)
}

// The table of chips names operators that exist, and no chip that the rest of the tables does not know.
func TestLacks(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for name, letters := range lacking() {
		_, ok := table.Operator(name)
		assert.True(t, ok, name)
		for i := range letters {
			assert.Contains(t, chips, Chip(letters[i]), name)
		}
		assert.Less(t, len(letters), len(chips), "%s is on no chip", name)
	}
	assert.True(t, Lacks("QuantMax", Ascend910B))
	assert.False(t, Lacks("QuantMax", Ascend950))
	assert.False(t, Lacks("Add", Ascend910B))
	assert.False(t, Lacks("Gather", Ascend950), "the source has a list of element types for the chip")
	assert.False(t, Lacks("NoSuchOperator", Ascend910B))
	assert.Greater(t, len(lacking()), 400)
}

func TestChipOf(t *testing.T) {
	for name, want := range map[string]Chip{
		"Ascend910B1": Ascend910B, "Ascend910B4-1": Ascend910B, "Ascend910_9391": Ascend910_93, "Ascend310P3": Ascend310P,
		"Ascend910A": Ascend910, "Ascend910ProB": Ascend910, "Ascend950PR_9599": Ascend950,
	} {
		assert.Equal(t, want, ChipOf(name), name)
	}
	for _, name := range soc.Names() {
		assert.NotZero(t, ChipOf(name), name)
	}
	for _, name := range []string{"", "Ascend310B1", "Ascend1", "910B1"} {
		assert.Zero(t, ChipOf(name), name)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "(", ")", "(null)", "(null a b)", "(unknown a)", "(in a)", "(eq a", "a b", "$9", "$x", `"a`, "?", "(eq ? 1)", "@null", strings.Repeat("(not ", 300) + "1" + strings.Repeat(")", 300)} {
		_, err := Parse(s)
		assert.Error(t, err, s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("(and (not (in (dt self) f32 f16)) (gt (rank (view self)) 8))")
	f.Add("(not (null self")
	f.Add(`(any $1 0 (count x) (samestr y "a b"))`)
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(n.String())
		require.NoError(t, err, s)
		require.Equal(t, n.String(), again.String())
	})
}
