package model_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// mixed joins rows of batches: numbers says for each row of the result its batch, which is also its adapter,
// whose rows come in order.
func mixed(numbers []int, batches ...model.Batch) model.Batch {
	b := model.Batch{Size: len(numbers), Length: batches[0].Length, Adapters: numbers}
	next := make([]int, len(batches))
	for _, n := range numbers {
		row := batches[n].Rows(next[n], 1)
		next[n]++
		b.Inputs, b.Labels = append(b.Inputs, row.Inputs...), append(b.Labels, row.Labels...)
		b.Lengths = append(b.Lengths, row.Lengths...)
	}
	return b
}

// TestGoldenMultipleAdapters trains both adapters of PEFT's recorded runs in one pass, with their samples and one
// without an adapter in a mixed order.
func TestGoldenMultipleAdapters(t *testing.T) {
	for _, name := range adapterModels {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			r := openAdapterRun(t, name)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			before := baseValues(t, m)
			names := []string{"a", "b"}
			var adapters []*model.Adapter
			var optimizers []*model.Optimizer
			for _, which := range names {
				a, o := r.adapter(t, m, which)
				adapters, optimizers = append(adapters, a), append(optimizers, o)
			}
			for step := range r.steps {
				plain := r.batch(t, "a", (step+1)%r.steps)
				require.NoError(t, m.Use(nil))
				without, err := m.Loss(t.Context(), plain.Rows(0, 1))
				require.NoError(t, err)
				require.NoError(t, m.UseEach(adapters...))
				b := mixed([]int{2, 1, 0, 1, 2}, plain, r.batch(t, "a", step), r.batch(t, "b", step))
				losses, err := m.GradientsEach(t.Context(), b)
				require.NoError(t, err)
				require.Len(t, losses, 3)
				require.InDelta(t, without, losses[0], 1e-6)
				for i, which := range names {
					require.InDelta(t, r.losses[which][step], losses[i+1], 1e-6, "loss of step %d of %s", step, which)
					for _, p := range adapters[i].Parameters() {
						if step == 0 {
							require.NoError(t, golden.CheckRMS(download(t, st, p.Grad), r.values(t, which+"/grad0/"+p.Name), 2e-6), p.Name)
						}
					}
					norm, err := optimizers[i].Step(t.Context())
					require.NoError(t, err)
					require.InEpsilon(t, r.norms[which][step], norm, 1e-5, "norm of step %d of %s", step, which)
				}
			}
			require.Equal(t, before, baseValues(t, m))
			for i, which := range names {
				alone, o := r.adapter(t, m, which)
				for step := range r.steps {
					r.train(t, m, alone, o, which, step, nil)
				}
				apart := adapterValues(t, alone)
				for name, got := range adapterValues(t, adapters[i]) {
					require.NoError(t, within(got, r.values(t, which+"/final/"+name), 1e-5), name)
					require.NoError(t, within(got, apart[name], 1e-5), "%s alone", name)
				}
			}
		})
	}
}

// multiAdapterCase is a batch whose samples have three adapters that differ in layers, rank, scale and dropout, and the
// batches of each alone.
type multiAdapterCase struct {
	name     string
	micro    int
	together model.Batch
	alone    []model.Batch // of adapters 1 to 3
}

// multiAdapterCases have rows with padding; packed sequences; and micro-batches, of which the first lacks an adapter.
func multiAdapterCases(rows model.Batch) []multiAdapterCase {
	one := func(i int) model.Batch { return rows.Rows(i, 1) }
	padded := rows
	padded.Lengths, padded.Labels = []int64{17, 40, 8, 33}, append([]int32(nil), rows.Labels...)
	for i, l := range padded.Lengths {
		for j := max(int(l)-1, 0); j < rows.Length; j++ {
			padded.Labels[i*rows.Length+j] = -1
		}
	}
	some := padded.Rows(0, 4)
	some.Adapters = []int{3, 2, 1, 3}
	two := mixed([]int{0, 0}, padded)
	two.Adapters, two.Lengths = nil, []int64{17, 33}
	copy(two.Inputs[rows.Length:], padded.Inputs[3*rows.Length:])
	copy(two.Labels[rows.Length:], padded.Labels[3*rows.Length:])

	packed := model.Batch{Size: 1, Length: 4 * rows.Length, Inputs: rows.Inputs, Labels: rows.Labels, CuSeqLens: []int64{0, 40, 55, 80, 120, 160}}
	packed.Adapters = []int{2, 1, 3, 0, 1}
	cut := func(cu ...int64) model.Batch { // pairs of ends
		b := model.Batch{Size: 1, CuSeqLens: []int64{0}}
		for i := 0; i < len(cu); i += 2 {
			b.Inputs, b.Labels = append(b.Inputs, rows.Inputs[cu[i]:cu[i+1]]...), append(b.Labels, rows.Labels[cu[i]:cu[i+1]]...)
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.Inputs)))
		}
		b.Length = len(b.Inputs)
		return b
	}
	halves := rows
	halves.Adapters = []int{2, 2, 3, 1}
	return []multiAdapterCase{
		{"padded", 1, some, []model.Batch{padded.Rows(2, 1), padded.Rows(1, 1), two}},
		{"packed", 1, packed, []model.Batch{cut(40, 55, 120, 160), cut(0, 40), cut(55, 80)}},
		{"micro-batches", 2, halves, []model.Batch{one(3), rows.Rows(0, 2), one(2)}},
	}
}

// TestMultipleAdaptersEqualSeparateOnes compares the losses and gradients of adapters that differ in all options
// with those of passes of each alone.
func TestMultipleAdaptersEqualSeparateOnes(t *testing.T) {
	each := []model.LoRA{
		{Rank: 3, Alpha: 5, Targets: []string{"o_proj", "up_proj", "lm_head"}, Dropout: 0.25},
		{Rank: 2, Alpha: 2, Targets: []string{"v_proj", "gate_proj"}},
		{Rank: 8, Alpha: 16, Targets: []string{model.AllLinear}, Ranks: model.Overrides{{Layers: "o_proj", Value: 5}}, Dropout: 0.1},
	}
	for _, name := range []string{"qwen3", "qwen3_5"} {
		st, reg := setUp(t)
		r := openAdapterRun(t, name)
		a, b := r.batch(t, "a", 0), r.batch(t, "b", 1)
		rows := model.Batch{Size: 4, Length: a.Length, Inputs: append(append([]int32(nil), a.Inputs...), b.Inputs...), Labels: append(append([]int32(nil), a.Labels...), b.Labels...)}
		for _, c := range multiAdapterCases(rows) {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				options := slices.Clone(each)
				if c.micro > 1 { // the draws of dropout go on from one micro-batch to the next
					options[0].Dropout, options[2].Dropout = 0, 0
				}
				together := r.base(t, st, reg, aclnn.Float32, model.Parallel{MicroBatches: c.micro})
				apart := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
				adapter := func(m *model.Model, lora model.LoRA) *model.Adapter {
					a, err := model.NewAdapter(t.Context(), m, lora, 3)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, a.Close()) })
					require.NoError(t, random(t.Context(), a))
					return a
				}
				var adapters []*model.Adapter
				for _, lora := range options {
					adapters = append(adapters, adapter(together, lora))
				}
				require.NoError(t, together.UseEach(adapters...))
				losses, err := together.GradientsEach(t.Context(), c.together)
				require.NoError(t, err)
				for i, lora := range options {
					alone := adapter(apart, lora)
					require.NoError(t, apart.Use(alone))
					loss, err := apart.Gradients(t.Context(), c.alone[i])
					require.NoError(t, err)
					require.InDelta(t, loss, losses[i+1], 1e-6, "loss of adapter %d", i+1)
					for k, p := range alone.Parameters() {
						want := download(t, st, p.Grad)
						require.NoError(t, golden.CheckRMS(download(t, st, adapters[i].Parameters()[k].Grad), want, 2e-6), "%s of adapter %d", p.Name, i+1)
					}
				}
			})
		}
	}
}

// TestAdapterWithoutSamplesRests: an adapter without samples keeps its weights and its count of steps, and trains
// afterwards as if the step had not been.
func TestAdapterWithoutSamplesRests(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	a, first := r.adapter(t, m, "a")
	b, second := r.adapter(t, m, "b")
	require.NoError(t, m.UseEach(a, b))
	before := adapterValues(t, b)
	for step := range 2 {
		losses, err := m.GradientsEach(t.Context(), mixed([]int{1, 1}, model.Batch{Length: 40}, r.batch(t, "a", step)))
		require.NoError(t, err)
		require.InDelta(t, r.losses["a"][step], losses[1], 1e-6)
		require.True(t, math.IsNaN(losses[0]) && math.IsNaN(losses[2]), "%v", losses)
		_, err = first.Step(t.Context())
		require.NoError(t, err)
		norm, err := second.Step(t.Context())
		require.NoError(t, err)
		require.Zero(t, norm)
	}
	require.Equal(t, 2, first.Steps())
	require.Zero(t, second.Steps())
	require.Equal(t, before, adapterValues(t, b))
	for step := range r.steps {
		losses, err := m.GradientsEach(t.Context(), mixed([]int{2, 2}, model.Batch{Length: 40}, model.Batch{}, r.batch(t, "b", step)))
		require.NoError(t, err)
		require.InDelta(t, r.losses["b"][step], losses[2], 1e-6)
		_, err = second.Step(t.Context())
		require.NoError(t, err)
		_, err = first.Step(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 2, first.Steps())
	for name, got := range adapterValues(t, b) {
		require.NoError(t, within(got, r.values(t, "b/final/"+name), 1e-5), name)
	}
	require.NoError(t, m.Use(a))
	_, err := m.Gradients(t.Context(), r.batch(t, "a", 0))
	require.NoError(t, err)
	_, err = first.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, first.Steps(), "it rests no more")
}

// TestMultipleAdaptersOfBFloat16 checks that adapters of a base in bfloat16 follow the recorded losses.
func TestMultipleAdaptersOfBFloat16(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.BFloat16, model.Parallel{})
	a, first := r.adapter(t, m, "a")
	b, second := r.adapter(t, m, "b")
	require.NoError(t, m.UseEach(b, a))
	for step := range r.steps {
		losses, err := m.GradientsEach(t.Context(), mixed([]int{2, 1, 1, 2}, model.Batch{Length: 40}, r.batch(t, "b", step), r.batch(t, "a", step)))
		require.NoError(t, err)
		require.InEpsilon(t, r.losses["b"][step], losses[1], 5e-3)
		require.InEpsilon(t, r.losses["a"][step], losses[2], 5e-3)
		for _, o := range []*model.Optimizer{first, second} {
			_, err := o.Step(t.Context())
			require.NoError(t, err)
		}
	}
}

// TestMultipleAdapterRefusals checks what a pass of several adapters cannot be of.
func TestMultipleAdapterRefusals(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	a, o := r.adapter(t, m, "a")
	b, _ := r.adapter(t, m, "b")
	batch := r.batch(t, "a", 0)
	chosen := batch
	chosen.Adapters = []int{1, 2}
	refused := func(want error, text string, err error) {
		t.Helper()
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, text)
	}
	invalid := acl.ErrInvalidArgument
	refused(invalid, "needs an adapter", m.UseEach())
	refused(invalid, "adapter 2 is closed, of another model, or there twice", m.UseEach(a, a))
	refused(invalid, "adapter 1 is closed", m.UseEach((*model.Adapter)(nil)))
	other, _ := r.adapter(t, r.base(t, st, reg, aclnn.Float32, model.Parallel{}), "a")
	refused(invalid, "of another model", m.UseEach(a, other))
	_, err := m.GradientsEach(t.Context(), chosen)
	refused(invalid, "after UseEach", err)
	for _, err := range []error{
		errorOf(m.Loss(t.Context(), chosen)), errorOf(m.Logits(t.Context(), chosen)), errorOf(m.Gradients(t.Context(), chosen)),
	} {
		refused(invalid, "GradientsEach", err)
	}
	require.NoError(t, m.UseEach(a, b))
	_, err = m.Gradients(t.Context(), batch)
	refused(invalid, "GradientsEach", err)
	_, err = m.GradientsEach(t.Context(), batch)
	refused(invalid, "GradientsEach", err)
	tr, err := model.NewTrainer(m, o)
	require.NoError(t, err)
	_, _, err = tr.Step(t.Context(), chosen)
	refused(invalid, "GradientsEach", err)
	_, _, err = tr.Step(t.Context(), batch)
	require.ErrorContains(t, err, "another adapter")
	require.NoError(t, tr.Close())
	for text, change := range map[string]func(*model.Batch){
		"2 samples has 1 adapters":          func(b *model.Batch) { b.Adapters = []int{1} },
		"sample 1 has adapter 3":            func(b *model.Batch) { b.Adapters = []int{1, 3} },
		"sample 0 has adapter -1":           func(b *model.Batch) { b.Adapters = []int{-1, 1} },
		"Targets is 7":                      func(b *model.Batch) { b.Targets = 7 },
		"AdapterTargets has 2 numbers":      func(b *model.Batch) { b.AdapterTargets = []int{0, 39} },
		"38 labels of adapter 2, and this":  func(b *model.Batch) { b.AdapterTargets = []int{0, 39, 38} },
		"has AdapterTargets and no Adapter": func(b *model.Batch) { b.Adapters, b.AdapterTargets = nil, []int{0, 39, 39} },
	} {
		bad := chosen
		change(&bad)
		_, err := m.GradientsEach(t.Context(), bad)
		refused(invalid, text, err)
	}
	require.NoError(t, b.Close())
	_, err = m.GradientsEach(t.Context(), chosen)
	refused(invalid, "after UseEach", err)
	refused(invalid, "is closed", m.UseEach(a, b))

	half := r.base(t, st, reg, aclnn.Float16, model.Parallel{})
	scaled, _ := r.adapter(t, half, "a")
	refused(acl.ErrNotSupported, "float16", half.UseEach(scaled))
	spread := r.base(t, st, reg, aclnn.Float32, model.Parallel{Data: faraway{size: 2}})
	far, _ := r.adapter(t, spread, "a")
	require.NoError(t, spread.UseEach(far))
	chosen.Adapters = []int{1, 0}
	_, err = spread.GradientsEach(t.Context(), chosen)
	refused(invalid, "2 ranks have different samples", err)

	moe := openAdapterRun(t, "qwen3_moe")
	sparse := moe.base(t, st, reg, aclnn.Float32, model.Parallel{})
	experts, err := model.NewAdapter(t.Context(), sparse, expertLoRA, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, experts.Close()) }()
	refused(acl.ErrNotSupported, "a stacked weight of experts", sparse.UseEach(experts))
	moe.config.RouterLoss, moe.config.RouterLossScale = true, 0.01
	balanced := moe.base(t, st, reg, aclnn.Float32, model.Parallel{})
	plain, _ := moe.adapter(t, balanced, "a")
	refused(acl.ErrNotSupported, "load balancing", balanced.UseEach(plain))
}

func errorOf[T any](_ T, err error) error { return err }
