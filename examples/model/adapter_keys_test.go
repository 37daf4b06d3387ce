package model_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/verdict"
)

// adapterMutations has another legal value for each key of adapter_config.json that is honoured.
var adapterMutations = map[string]string{
	"peft_type":           `"LOHA"`,
	"r":                   "4", // the folder's products then have another shape
	"lora_alpha":          "3",
	"lora_dropout":        "0.5",
	"use_rslora":          "true",
	"target_modules":      `["q_proj"]`,
	"target_parameters":   `["mlp.experts.gate_up_proj"]`, // the model has no experts
	"exclude_modules":     `["q_proj"]`,
	"rank_pattern":        `{"q_proj":4}`,
	"alpha_pattern":       `{"q_proj":3}`,
	"layers_to_transform": "[1]",
}

// TestEveryAdapterKey changes each key of adapter_config.json to another legal value. That changes the loss with the loaded adapter,
// or the weights of a new one with the same options; a key without effect changes neither; and a refused one is named.
func TestEveryAdapterKey(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	of := func(options string) (string, error) {
		folder := changedAdapter(t, filepath.Join(r.folder, "a"), options, func(name string) string { return name })
		a, err := model.LoadAdapter(t.Context(), m, folder, 1)
		if err != nil {
			return "", err
		}
		require.NoError(t, m.Use(a))
		loss, err := m.Gradients(t.Context(), r.batch(t, "a", 0))
		require.NoError(t, err)
		require.NoError(t, m.Use(nil))
		require.NoError(t, a.Close())
		lora, err := model.ReadLoRA(folder)
		require.NoError(t, err)
		if a, err = model.NewAdapter(t.Context(), m, lora, 1); err != nil {
			return "", err
		}
		var names []string
		for _, p := range a.Parameters() {
			names = append(names, fmt.Sprint(p.Name, p.Shape()))
		}
		require.NoError(t, a.Close())
		return fmt.Sprint(loss, names), nil
	}
	want, err := of("")
	require.NoError(t, err)
	for _, k := range model.AdapterTable.Keys {
		value, ok := adapterMutations[k.Name]
		require.Equal(t, k.Kind == verdict.Honoured, ok, "%s: each key that is honoured has a change", k.Name)
		if !ok {
			value = "7"
		}
		got, err := of(fmt.Sprintf("%q:%s", k.Name, value))
		switch k.Kind {
		case verdict.Refused:
			require.ErrorContains(t, err, k.Name+" is "+value)
		case verdict.Harmless:
			require.NoError(t, err, k.Name)
			require.Equal(t, want, got, k.Name)
		default:
			require.True(t, err != nil || got != want, "%s is honoured, and %s changes nothing", k.Name, value)
		}
		for _, neutral := range append([]string{"null"}, k.Neutral...) {
			if k.Kind == verdict.Honoured {
				continue
			}
			got, err := of(fmt.Sprintf("%q:%s", k.Name, neutral))
			require.NoError(t, err, "%s: %s", k.Name, neutral)
			require.Equal(t, want, got, k.Name)
		}
	}
	_, err = of(`"nobody_knows":7`)
	require.ErrorContains(t, err, "nobody_knows is 7")
}
