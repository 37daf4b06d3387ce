package parallel_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops/parallel"
)

// The hidden and intermediate sizes of the experts, which fill whole tiles.
const (
	checkpointExperts, checkpointHidden, checkpointInner = 3, 32, 16
)

// expertTensors are the experts of a layer in a Hugging Face checkpoint: matrices [out, in], with
// gate and up separate, and a router, which is not an expert.
func expertTensors() (infos []safetensors.Info) {
	const layer = "model.layers.0.mlp."
	for e := range checkpointExperts {
		for _, name := range []string{"gate_proj", "up_proj"} {
			infos = append(infos, safetensors.Info{Name: fmt.Sprintf("%sexperts.%d.%s.weight", layer, e, name), DType: aclnn.BFloat16, Shape: []int{checkpointInner, checkpointHidden}})
		}
		infos = append(infos, safetensors.Info{Name: fmt.Sprintf("%sexperts.%d.down_proj.weight", layer, e), DType: aclnn.BFloat16, Shape: []int{checkpointHidden, checkpointInner}})
	}
	return append(infos, safetensors.Info{Name: layer + "gate.weight", DType: aclnn.BFloat16, Shape: []int{checkpointExperts, checkpointHidden}})
}

// writeTensors writes a file of tensors whose bytes are returned by read.
func writeTensors(t *testing.T, path string, infos []safetensors.Info, read func(info safetensors.Info) []byte) {
	t.Helper()
	w, err := safetensors.Create(path, infos, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	for _, info := range infos {
		require.NoError(t, w.Write(info.Name, read(info)))
	}
	require.NoError(t, w.Commit())
}

// bytesOf returns bfloat16 values as bytes in the order of a file.
func bytesOf(values []float32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint16(out, uint16(half.BFloat16FromFloat32(v)))
	}
	return out
}

// weightOf says where a tensor of the file belongs: the parameter, the expert, and the range of
// columns. Parameters are [experts, in, out], the file has [out, in].
func weightOf(name string) (parameter, expert, part int) {
	for e := range checkpointExperts {
		for i, projection := range []string{"gate_proj", "up_proj", "down_proj"} {
			if name == fmt.Sprintf("model.layers.0.mlp.experts.%d.%s.weight", e, projection) {
				return i / 2, e, i % 2
			}
		}
	}
	return 2, 0, 0
}

// expertView views the part of a whole parameter that a tensor of the file holds, in the file's
// order of dimensions.
func expertView(whole *aclnn.Tensor, name string, shape []int) *aclnn.Tensor {
	parameter, expert, part := weightOf(name)
	if parameter == 2 {
		return whole
	}
	out := int64(shape[0])
	return whole.Select(0, int64(expert)).Narrow(1, int64(part)*out, out).Transpose(0, 1)
}

// TestShardedCheckpoint loads weights into shards over any number of ranks, gathers them in
// FRACTAL_NZ, and writes them back: the file must be identical to the original.
func TestShardedCheckpoint(t *testing.T) {
	infos, dir := expertTensors(), t.TempDir()
	first := filepath.Join(dir, "first.safetensors")
	seed := uint64(0)
	writeTensors(t, first, infos, func(info safetensors.Info) []byte {
		seed++
		return bytesOf(opstest.Random(aclnn.BFloat16, seed, int64(info.Len())))
	})
	want, err := os.ReadFile(first)
	require.NoError(t, err)
	parameters := []parallel.ShardedParameter{
		{Name: "layers.0.mlp.experts.gate_up_proj", Shape: []int64{checkpointExperts, checkpointHidden, 2 * checkpointInner}},
		{Name: "layers.0.mlp.experts.down_proj", Shape: []int64{checkpointExperts, checkpointInner, checkpointHidden}},
		{Name: "layers.0.mlp.gate", Shape: []int64{checkpointExperts, checkpointHidden}},
	}
	for _, ranks := range []int{1, 3, 8} {
		for _, align := range []int64{0, parallel.ShardAlignment} {
			t.Run(fmt.Sprint(ranks, " ranks, alignment ", align), func(t *testing.T) {
				onRanks(t, ranks, func(r *rank) {
					p, err := parallel.NewSharded(r.Stream, r.Registry, r.comm, aclnn.BFloat16, parameters, parallel.ShardConfig{Rules: expertRules, Align: align})
					require.NoError(r.T, err)
					defer func() { require.NoError(r.T, p.Close()) }()
					r.loadExperts(p, parameters, first)
					require.NoError(r.T, p.Gather(r.T.Context(), r.Stream))
					for i := range parameters {
						require.Equal(r.T, i < 2, p.Weight(i).Format() == aclnn.FractalNZ, parameters[i].Name)
					}
					require.NoError(r.T, p.GatherND(r.T.Context(), r.Stream))
					again := filepath.Join(dir, fmt.Sprintf("%d-%d-%d.safetensors", ranks, align, r.comm.Rank()))
					writeTensors(r.T, again, infos, func(info safetensors.Info) []byte {
						parameter, _, _ := weightOf(info.Name)
						return bytesOf(r.Read(expertView(p.Weight(parameter), info.Name, info.Shape)))
					})
					got, err := os.ReadFile(again)
					require.NoError(r.T, err)
					require.True(r.T, string(want) == string(got), "rank %d wrote another file", r.comm.Rank())
				})
			})
		}
	}
}

// loadExperts reads a file into the shard of a rank.
func (r *rank) loadExperts(p *parallel.Sharded, parameters []parallel.ShardedParameter, path string) {
	f, err := safetensors.Open(path)
	require.NoError(r.T, err)
	defer func() { require.NoError(r.T, f.Close()) }()
	whole := make([]*aclnn.Tensor, len(parameters))
	for i, q := range parameters {
		whole[i] = r.Empty(aclnn.BFloat16, q.Shape...)
	}
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		require.NoError(r.T, err)
		values, err := safetensors.Values[float32](x)
		require.NoError(r.T, err)
		shape := opstest.Convert(x.Shape, func(n int) int64 { return int64(n) })
		parameter, _, _ := weightOf(name)
		require.NoError(r.T, aclnn.InplaceCopy(r.Stream, aclnn.InplaceCopyParams{
			Self: expertView(whole[parameter], name, x.Shape), Src: r.Floats(aclnn.BFloat16, values, shape...),
		}))
	}
	for i := range parameters {
		require.NoError(r.T, p.Load(r.Stream, i, whole[i]))
	}
}
