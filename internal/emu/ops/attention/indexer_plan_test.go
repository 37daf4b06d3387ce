package attention

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

// indexerPlanCase is a call of CANN's own operator, run on a host, with what it wrote: the rows of the cores that have work.
type indexerPlanCase struct {
	Quantised      bool `json:",omitempty"`
	Chip           string
	Cores          [2]int64
	Heads, TopK    int64
	Layouts        [2]string
	Mask, Ratio    int64
	Most           [2]int64
	Batch          int64
	Lists          [5][]int64 // ends of queries and keys, used queries and keys, what compression left of keys
	Cubes, Vectors [][]float64
}

func (c indexerPlanCase) args(t *testing.T, l kerneltest.Layout, out *op.Tensor) optest.Args {
	a := optest.Args{
		"numHeadsQ": c.Heads, "numHeadsK": 1, "headDim": 128, "topk": c.TopK, "batchSize": c.Batch, "maxSeqlenQ": c.Most[0], "maxSeqlenK": c.Most[1],
		"layoutQOptional": c.Layouts[0], "layoutKOptional": c.Layouts[1], "maskMode": c.Mask, "cmpRatio": c.Ratio, "metadata": out,
	}
	if c.Quantised {
		a["quantMode"] = 2
	}
	for i, name := range []string{"cuSeqlensQOptional", "cuSeqlensKOptional", "sequsedQOptional", "sequsedKOptional", "cmpResidualKOptional"} {
		if v := c.Lists[i]; len(v) > 0 {
			a[name] = optest.TensorIn(t, dtype.Int32, l, []int64{int64(len(v))}, optest.Floats(v)...)
		}
	}
	return a
}

// TestIndexerPlan compares all numbers of a plan, and those after it, with the output of CANN's operator.
func TestIndexerPlan(t *testing.T) {
	file, err := os.Open("testdata/indexer_plans.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var c indexerPlanCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		out := optest.Tensor(t, dtype.Int32, []int64{1024})
		optest.Fill(out, 77)
		chip := acceptance.Ascend910B
		if c.Chip == "Ascend950" {
			chip = acceptance.Ascend950
		}
		e, err := optest.PrepareIn(t, op.Env{Chip: chip, Cores: op.Cores{Cube: c.Cores[0], Vector: c.Cores[1]}}, map[bool]string{false: "LightningIndexerV2Metadata", true: "QuantLightningIndexerV2Metadata"}[c.Quantised], c.args(t, kerneltest.Layouts[n%2*2], out))
		require.NoError(t, err, lines.Text())
		require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{0}))
		want := slices.Repeat([]float64{77}, 1024)
		clear(want[:864])
		for i, row := range c.Cubes {
			copy(want[8*i:], row)
		}
		for i, row := range c.Vectors {
			copy(want[8*(36+i):], row)
		}
		require.Equal(t, want, optest.Values(out), lines.Text())
	}
	require.Greater(t, n, 20)
}

func TestIndexerPlanRefuses(t *testing.T) {
	const name = "LightningIndexerV2Metadata"
	i := func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Int32, []int64{int64(len(v))}, v...) }
	a := optest.Args{
		"cuSeqlensQOptional": i(0, 3, 7), "cuSeqlensKOptional": i(0, 30, 70), "numHeadsQ": 8, "numHeadsK": 1, "headDim": 128, "topk": 5, "maxSeqlenQ": -1, "maxSeqlenK": -1,
		"layoutQOptional": "TND", "layoutKOptional": "TND", "maskMode": 3, "cmpRatio": 1, "metadata": optest.Tensor(t, dtype.Int32, []int64{1024}),
	}
	optest.Run(t, name, a)
	for text, set := range map[string]optest.Args{
		"metadata is null": {"metadata": nil}, "numHeadsQ is 65": {"numHeadsQ": 65}, "numHeadsK is 2": {"numHeadsK": 2}, "headDim is 64": {"headDim": 64}, "topk is 0": {"topk": 0}, "batchSize is -1": {"batchSize": -1},
		"maskMode is 4": {"maskMode": 4}, "cmpRatio is 129": {"cmpRatio": 129}, `layoutQ is ""`: {"layoutQOptional": nil}, `layoutK is "BSND"`: {"layoutKOptional": "BSND"}, "sequsedK is null": {"layoutKOptional": "PA_BBND"},
		"cmpResidualK is null": {"cmpRatio": 4}, "cuSeqlensK is null": {"cuSeqlensKOptional": nil}, "maxSeqlenQ is -1": {"layoutQOptional": "BSND", "layoutKOptional": "BSND"}, "maxSeqlenK is -2": {"maxSeqlenK": -2},
		"lengths of 1 sequences": {"sequsedQOptional": i(1)}, "queries of 2 sequences, and keys of 1": {"cuSeqlensKOptional": i(0, 5)}, "a number for each sequence": {"cmpResidualKOptional": i(0)},
		"the numbers of a plan": {"metadata": i(1)}, "dtype": {"cuSeqlensQOptional": optest.Tensor(t, dtype.Int64, []int64{3})},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	quantised := a.With(optest.Args{"layoutKOptional": "PA_BBND", "sequsedKOptional": i(30, 40), "numHeadsQ": 64, "quantMode": 2})
	optest.Run(t, "Quant"+name, quantised)
	for _, set := range []optest.Args{{"numHeadsQ": 32}, {"topk": 2049}, {"quantMode": 1}, {"cmpRatio": 3}, {"layoutKOptional": "TND"}} {
		optest.Refused(t, op.InvalidParam, "Quant"+name, quantised.With(set), "64 heads, up to 2048 keys")
	}
	for text, set := range map[string]optest.Args{
		"begins with 1": {"cuSeqlensQOptional": i(1, 3, 7)}, "must not decrease": {"cuSeqlensKOptional": i(0, 5, 4)}, "sequsedQ[1] is 5": {"sequsedQOptional": i(3, 5)}, "sequsedK[0] is -1": {"sequsedKOptional": i(-1, 5)},
		"cmpResidualK[1] is 4": {"cmpResidualKOptional": i(3, 4), "cmpRatio": 4},
	} {
		err := optest.Execute(t, name, a.With(set))
		var f *rt.Fault
		require.ErrorAs(t, err, &f, text)
		require.Equal(t, rt.AICPUException, f.Code)
		require.Contains(t, f.Text, text)
	}
}
