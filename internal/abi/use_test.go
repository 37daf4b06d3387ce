package abi

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silent lists the operators that write no tensor: they order calls, change state of their own, write to other
// ranks or wait.
var silent = []string{"AttentionToFFN", "FFNToAttention", "Sleep", "DistributeBarrier", "DistributeBarrierV2", "ElasticReceivableTest", "MoeDistributeBufferReset"}

// If an operator writes nothing, one of its outputs was taken for an input.
func TestEveryOperatorWrites(t *testing.T) {
	table := load(t)
	for _, o := range table.Operators {
		writes := slices.ContainsFunc(o.Params, func(p Param) bool { return p.Use != Read })
		assert.Equal(t, !slices.Contains(silent, o.Name), writes, o.Name)
	}
}

// Every exception must match a tensor of an operator and contradict the conventions.
func TestExceptions(t *testing.T) {
	table := load(t)
	for _, x := range exceptions {
		names := strings.Fields(x.operators)
		if x.operators == "*" {
			names = nil
			for _, o := range table.Operators {
				if slices.ContainsFunc(o.Params, func(p Param) bool { return p.Name == x.param }) {
					names = append(names, o.Name)
				}
			}
		}
		require.NotEmpty(t, names, x.param)
		for _, name := range names {
			o, ok := table.Operator(name)
			if !assert.True(t, ok, name) {
				continue
			}
			i := slices.IndexFunc(o.Params, func(p Param) bool { return p.Name == x.param })
			if assert.GreaterOrEqual(t, i, 0, "%s has no %s", name, x.param) {
				assert.Equal(t, x.use, o.Params[i].Use, "%s of %s", x.param, name)
				if x.operators != "*" {
					assert.NotEqual(t, x.use, conventional(name, i, o.Params[i]), "%s of %s needs no exception", x.param, name)
				}
			}
		}
	}
}

func TestUses(t *testing.T) {
	table := load(t)
	for name, want := range map[string]string{
		"Add":                         "self read, other read, out written",
		"InplaceAdd":                  "selfRef updated, other read",
		"InplaceAtan2":                "selfRef updated, other read",
		"InplaceSqrt":                 "self updated",
		"LayerNormBackward":           "gradOut read, input read, mean read, rstd read, weightOptional read, biasOptional read, gradInputOut written, gradWeightOut written, gradBiasOut written",
		"GeluBackward":                "gradOutput read, self read, gradInput written",
		"ScaledMaskedSoftmaxBackward": "gradOutput read, y read, mask read, out written",
		"BatchNormElemt":              "input read, weight read, bias read, mean read, invstd read, output written",
		"ApplyAdamWV2":                "varRef updated, mRef updated, vRef updated, maxGradNormOptionalRef updated, grad read, step read",
		"ForeachZeroInplace":          "x updated",
	} {
		o, ok := table.Operator(name)
		require.True(t, ok, name)
		var got []string
		for _, p := range o.Params {
			if p.Class == Tensor || p.Class == TensorList {
				got = append(got, p.Name+" "+[]string{"read", "written", "updated"}[p.Use])
			}
		}
		assert.Equal(t, want, strings.Join(got, ", "), name)
	}
}
