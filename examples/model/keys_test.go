package model_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// mutation is a change of a configuration: base goes over the folder's, and change over both.
type mutation struct{ base, change string }

// mutations has one for each key that is honoured, except those of the rotation's objects.
var mutations = map[string]mutation{
	"model_type":                       {"", `{"model_type":"qwen3_next"}`},
	"vocab_size":                       {"", `{"vocab_size":161}`},
	"hidden_size":                      {"", `{"hidden_size":32}`},
	"intermediate_size":                {"", `{"intermediate_size":64}`},
	"num_hidden_layers":                {"", `{"num_hidden_layers":1,"layer_types":null}`},
	"num_attention_heads":              {"", `{"num_attention_heads":2}`},
	"num_key_value_heads":              {"", `{"num_key_value_heads":4}`},
	"head_dim":                         {"", `{"head_dim":32}`},
	"rms_norm_eps":                     {"", `{"rms_norm_eps":0.01}`},
	"tie_word_embeddings":              {"", `{"tie_word_embeddings":true}`},
	"initializer_range":                {"", `{"initializer_range":0.5}`},
	"max_position_embeddings":          {`{"rope_parameters":{"rope_type":"dynamic","factor":4.0}}`, `{"max_position_embeddings":16}`},
	"rope_theta":                       {`{"rope_parameters":null}`, `{"rope_theta":500}`},
	"original_max_position_embeddings": {`{"rope_parameters":{"rope_type":"yarn","factor":4.0,"beta_slow":0.001}}`, `{"original_max_position_embeddings":16}`},
	"layer_types":                      {"", `{"layer_types":["full_attention"]}`},
	"full_attention_interval":          {`{"layer_types":null,"full_attention_interval":2}`, `{"full_attention_interval":4}`},
	"partial_rotary_factor":            {`{"rope_parameters":null}`, `{"partial_rotary_factor":0.5}`},
	"linear_num_key_heads":             {"", `{"linear_num_key_heads":1}`},
	"linear_num_value_heads":           {"", `{"linear_num_value_heads":2}`},
	"linear_key_head_dim":              {"", `{"linear_key_head_dim":8}`},
	"linear_value_head_dim":            {"", `{"linear_value_head_dim":8}`},
	"linear_conv_kernel_dim":           {"", `{"linear_conv_kernel_dim":2}`},
	"num_experts":                      {"", `{"num_experts":4}`},
	"num_local_experts":                {"", `{"num_local_experts":4}`},
	"num_experts_per_tok":              {"", `{"num_experts_per_tok":1}`},
	"moe_intermediate_size":            {"", `{"moe_intermediate_size":16}`},
	"attention_bias":                   {"", `{"attention_bias":true}`}, // the folder then lacks biases
	"sliding_window":                   {`{"use_sliding_window":true,"sliding_window":5,"max_window_layers":1,"layer_types":null}`, `{"sliding_window":7}`},
	"use_sliding_window":               {`{"sliding_window":5,"max_window_layers":1,"layer_types":null}`, `{"use_sliding_window":true}`},
	"max_window_layers":                {`{"sliding_window":5,"use_sliding_window":true,"max_window_layers":1,"layer_types":null}`, `{"max_window_layers":0}`},
	"hidden_act":                       {"", `{"hidden_act":"gelu"}`},
	"shared_expert_intermediate_size":  {"", `{"shared_expert_intermediate_size":16}`},
	"q_lora_rank":                      {"", `{"q_lora_rank":16}`},
	"kv_lora_rank":                     {"", `{"kv_lora_rank":8}`},
	"qk_nope_head_dim":                 {"", `{"qk_nope_head_dim":8}`},
	"qk_rope_head_dim":                 {"", `{"qk_rope_head_dim":4}`},
	"v_head_dim":                       {"", `{"v_head_dim":8}`},
	"n_routed_experts":                 {"", `{"n_routed_experts":4}`},
	"n_shared_experts":                 {"", `{"n_shared_experts":2}`},
	"first_k_dense_replace":            {"", `{"first_k_dense_replace":0}`},
	"n_group":                          {"", `{"n_group":2}`},
	"topk_group":                       {"", `{"topk_group":1}`},
	"routed_scaling_factor":            {"", `{"routed_scaling_factor":1.5}`},
	"rope_interleave":                  {"", `{"rope_interleave":false}`},
	"norm_topk_prob":                   {"", `{"norm_topk_prob":false}`},
	"decoder_sparse_step":              {"", `{"decoder_sparse_step":2}`},
	"mlp_only_layers":                  {"", `{"mlp_only_layers":[0]}`},
	"output_router_logits":             {`{"router_aux_loss_coef":0.5}`, `{"output_router_logits":true}`},
	"quantization_config":              {"", `{"quantization_config":{"quant_method":"fp8"}}`},
	"router_aux_loss_coef":             {`{"output_router_logits":true}`, `{"router_aux_loss_coef":0.5}`},
}

// own has the changes for kinds whose folder already has the value, or lacks a key of the others.
var own = map[string]map[string]mutation{
	"glm4": {"partial_rotary_factor": {`{"rope_parameters":null}`, `{"partial_rotary_factor":0.25}`}, "attention_bias": {"", `{"attention_bias":false}`}},
	"glm4_moe": {
		"partial_rotary_factor": {`{"rope_parameters":null}`, `{"partial_rotary_factor":0.25}`}, "attention_bias": {"", `{"attention_bias":false}`},
		"use_qk_norm": {"", `{"use_qk_norm":false}`}, "n_group": {`{"topk_group":1}`, `{"n_group":4}`}, "topk_group": {`{"n_group":4,"topk_group":1}`, `{"topk_group":2}`},
		"routed_scaling_factor": {"", `{"routed_scaling_factor":3.0}`}, "first_k_dense_replace": {"", `{"first_k_dense_replace":0}`},
	},
	"deepseek_v2": {
		"n_group":        {`{"topk_method":"group_limited_greedy","n_group":4,"topk_group":2}`, `{"n_group":2,"topk_group":1}`},
		"topk_group":     {`{"topk_method":"group_limited_greedy","n_group":4,"topk_group":1}`, `{"topk_group":3}`},
		"norm_topk_prob": {"", `{"norm_topk_prob":true}`},
		"topk_method":    {`{"n_group":4,"topk_group":1}`, `{"topk_method":"group_limited_greedy"}`},
	},
	"gemma3_text": {
		"sliding_window": {"", `{"sliding_window":5}`}, "sliding_window_pattern": {`{"layer_types":null}`, `{"sliding_window_pattern":2}`},
		"layer_types": {"", `{"layer_types":["full_attention","full_attention"]}`}, "hidden_activation": {"", `{"hidden_activation":"gelu"}`},
		"query_pre_attn_scalar": {"", `{"query_pre_attn_scalar":64}`}, "rope_local_base_freq": {`{"rope_parameters":null}`, `{"rope_local_base_freq":500}`},
	},
	"gpt_oss": {
		"num_local_experts": {"", `{"num_local_experts":3}`}, "attention_bias": {"", `{"attention_bias":false}`}, // the folder has four, and biases
		"sliding_window": {"", `{"sliding_window":5}`}, "layer_types": {"", `{"layer_types":["full_attention","sliding_attention"]}`},
		"swiglu_limit": {"", `{"swiglu_limit":5.0}`},
	},
	"phi3": {
		"original_max_position_embeddings": {`{"rope_parameters":null,` + longrope1 + `}`, `{"original_max_position_embeddings":16}`},
		"max_position_embeddings":          {`{"rope_parameters":null,` + longrope1 + `}`, `{"max_position_embeddings":512}`},
	},
	"bert": encoderChanges, "roberta": encoderChanges, "xlm-roberta": encoderChanges,
	"qwen2_moe": {"norm_topk_prob": {"", `{"norm_topk_prob":true}`}},
}

var encoderChanges = map[string]mutation{
	"hidden_size":                          {"", `{"hidden_size":16}`},
	"num_hidden_layers":                    {"", `{"num_hidden_layers":1}`},
	"max_position_embeddings":              {"", `{"max_position_embeddings":65}`},
	"type_vocab_size":                      {"", `{"type_vocab_size":3}`},
	"layer_norm_eps":                       {"", `{"layer_norm_eps":0.01}`},
	"hidden_act":                           {"", `{"hidden_act":"gelu_new"}`},
	"pad_token_id":                         {"", `{"pad_token_id":3}`},
	"sentence_transformers.activation_fn":  {"", `{"sentence_transformers":{"activation_fn":"torch.nn.modules.linear.Identity"}}`},
	"sentence_transformers.version":        {"", `{"sentence_transformers":{"version":7}}`},
	"sbert_ce_default_activation_function": {"", `{"sbert_ce_default_activation_function":"torch.nn.modules.linear.Identity"}`},
}

const longrope1 = `"rope_scaling":{"type":"su","short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2,2,2]}`

const (
	yarn     = `"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64,"beta_slow":0.001`
	llama3   = `"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":64,"low_freq_factor":1.0,"high_freq_factor":4.0`
	longrope = `"rope_type":"longrope","factor":4.0,"short_factor":%[1]s,"long_factor":%[1]s,"original_max_position_embeddings":`
)

// rotations has one for each key of an object that describes the rotation, inside of it.
var rotations = map[string]mutation{
	"rope_type":                        {"", `"rope_type":"linear","factor":2.0`},
	"type":                             {"", `"type":"linear","factor":2.0`},
	"rope_theta":                       {"", `"rope_theta":500`},
	"partial_rotary_factor":            {"", `"partial_rotary_factor":0.5`},
	"factor":                           {`"rope_type":"linear","factor":2.0`, `"factor":3.0`},
	"original_max_position_embeddings": {yarn, `"original_max_position_embeddings":16`},
	"attention_factor":                 {yarn, `"attention_factor":2.0`},
	"beta_fast":                        {yarn, `"beta_fast":0.0005`},
	"beta_slow":                        {yarn, `"beta_slow":0.5`},
	"mscale":                           {yarn + `,"mscale":1.0,"mscale_all_dim":1.0`, `"mscale":2.0`},
	"mscale_all_dim":                   {yarn + `,"mscale":1.0,"mscale_all_dim":1.0`, `"mscale_all_dim":2.0`},
	"truncate":                         {yarn, `"truncate":false`},
	"low_freq_factor":                  {llama3, `"low_freq_factor":0.05`},
	"high_freq_factor":                 {llama3, `"high_freq_factor":100.0`},
	"short_factor":                     {longrope + "64", `"short_factor":%[2]s`},
	"long_factor":                      {longrope + "16", `"long_factor":%[2]s`},
	"mrope_section":                    {"", `"mrope_section":[2,1,1]`},
	"mrope_interleaved":                {"", `"mrope_interleaved":true`},
}

// TestEveryKey changes each key of config.json to another legal value. That changes the loss or the weights of a new model, or
// the folder does not fit any more; a key without effect changes neither; and a refused one is named.
func TestEveryKey(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads some hundred models")
	}
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, kind := range slices.Concat(model.ModelTypes(), model.EncoderTypes()) {
		t.Run(kind, func(t *testing.T) {
			folder := filepath.Join(dir, "hub", strings.TrimSuffix(kind, "_text"))
			if _, err := os.Stat(folder); err != nil {
				folders, err := filepath.Glob(filepath.Join(dir, map[bool]string{true: "encoders", false: "families"}[slices.Contains(model.EncoderTypes(), kind)], strings.NewReplacer("-roberta", "", "_text", "", "kimi_k2", "deepseek_v3").Replace(kind)+"*"))
				require.NoError(t, err)
				require.NotEmpty(t, folders, "there is no golden folder of %s", kind)
				folder = folders[0]
			}
			st, reg := setUp(t)
			o := &outcomes{t: t, st: st, reg: reg, folder: folder}
			var err error
			o.text, err = os.ReadFile(filepath.Join(folder, "config.json"))
			require.NoError(t, err)
			o.text = bytes.Replace(o.text, []byte(`"deepseek_v3"`), []byte(`"`+kind+`"`), 1)
			for _, k := range model.ConfigTable(kind).Keys {
				m, ok := mutations[k.Name]
				one, special := own[kind][k.Name]
				if special {
					m, ok = one, true
				}
				if k.Name == "model_type" && kind == "qwen3_next" {
					m.change = `{"model_type":"qwen3_5_moe_text"}`
				}
				if k.Kind == verdict.Refused || k.Name == "sliding_window" && !strings.Contains(string(o.text), "use_sliding_window") {
					m.base = ""
				}
				if k.Name == "intermediate_size" && strings.Contains(string(o.text), "moe_intermediate_size") {
					continue // no layer of the folder is without experts
				}
				change := k.Name
				if at := strings.LastIndexByte(k.Name, '.'); at >= 0 && special {
					change = k.Name[:at]
				} else if at >= 0 {
					change = k.Name[:at]
					if m, ok = rotations[k.Name[at+1:]]; ok && half(kind) == 4 && k.Name[at+1:] == "partial_rotary_factor" {
						m.change = `"partial_rotary_factor":0.25` // it has the other value
					}
					if kind == "phi3" && m.base != "" && !strings.HasPrefix(m.base, longrope) { // its only scaling
						m.base = longrope + "64"
					}
					if kind == "phi3" && k.Name[at+1:] != "factor" {
						m.base = strings.ReplaceAll(m.base, `"factor":4.0,`, "")
					}
					if ok {
						m = m.within(k.Name[:at], kind)
					}
				}
				if !ok {
					m.change = fmt.Sprintf(`{%q:7}`, k.Name)
				}
				require.True(t, ok || k.Kind != verdict.Honoured || k.Name == "eos_token_id", "%s is honoured and has no mutation", k.Name)
				before, err := o.of(m.base)
				require.NoError(t, err, "%s: %s", k.Name, m.base)
				after, err := o.of(m.base, m.change)
				switch {
				case k.Kind == verdict.Refused:
					require.ErrorContains(t, err, change, k.Name)
				case k.Kind == verdict.Harmless || k.Name == "eos_token_id": // weights.Source.Ends reads it
					require.NoError(t, err, k.Name)
					require.Equal(t, before, after, k.Name)
				case err == nil:
					require.NotEqual(t, before, after, k.Name)
				}
				for _, value := range k.Neutral {
					_, err := o.of(fmt.Sprintf(`{%q:%s}`, k.Name, value))
					if strings.Contains(value, "ForSequenceClassification") { // one label is read, and the classes have two
						require.ErrorContains(t, err, "with 2 labels", k.Name)
						continue
					}
					require.NoError(t, err, k.Name)
				}
			}
			_, err = o.of(`{"nobody_knows":1}`)
			require.ErrorContains(t, err, "config.json: nobody_knows is 1")
		})
	}
}

// within puts a mutation into the object of a name.
func (m mutation) within(object, kind string) mutation {
	list := func(x float64) string {
		text, _ := json.Marshal(slicesRepeat(x, half(kind)))
		return string(text)
	}
	wrap := func(inside string) string {
		if strings.Contains(inside, "%[") {
			inside = fmt.Sprintf(strings.ReplaceAll(inside, "%[2]s", list(3)), list(1.5))
		}
		text := "{" + inside + "}"
		names := strings.Split(object, ".")
		for i := len(names) - 1; i >= 0; i-- {
			text = fmt.Sprintf("{%q:%s}", names[i], text)
		}
		if names[0] != "rope_parameters" {
			text = text[:len(text)-1] + `,"rope_parameters":null}`
		}
		return text
	}
	base := m.base
	if base == "" {
		base = `"rope_theta":10000`
	}
	members := map[string]json.RawMessage{}
	for _, part := range []string{base, m.change} {
		part = strings.NewReplacer("%[1]s", `"one"`, "%[2]s", `"two"`).Replace(part)
		if err := json.Unmarshal([]byte("{"+part+"}"), &members); err != nil {
			panic(err)
		}
	}
	all, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	change := strings.NewReplacer(`"one"`, "%[1]s", `"two"`, "%[2]s").Replace(string(all[1 : len(all)-1]))
	return mutation{base: wrap(base), change: wrap(change)}
}

// half is the number of frequencies of a golden folder.
func half(kind string) int {
	switch {
	case strings.HasPrefix(kind, "qwen3_next") || strings.HasPrefix(kind, "qwen3_5"):
		return 2
	case strings.HasPrefix(kind, "glm4") || strings.HasPrefix(kind, "deepseek") || kind == "kimi_k2":
		return 4
	}
	return 8
}

func slicesRepeat(x float64, n int) (list []float64) {
	for range n {
		list = append(list, x)
	}
	return list
}

// outcomes computes what a configuration gives with the weights of a folder.
type outcomes struct {
	t      *testing.T
	st     *acl.Stream
	reg    *ops.Registry
	folder string
	text   []byte
	known  []outcome
}

// outcome holds the loss (of an encoder: the hidden states) and the first weight of a new model with a configuration. The parsed
// configuration alone determines them, so configurations that differ in harmless keys only share an outcome.
type outcome struct {
	cfg    model.Config
	result string
}

// of returns the loss of a batch, and a weight of a new model, of the folder's configuration with changes.
func (o *outcomes) of(changes ...string) (result string, err error) {
	all := map[string]json.RawMessage{}
	require.NoError(o.t, json.Unmarshal(o.text, &all))
	for _, c := range changes {
		var some map[string]json.RawMessage
		if c != "" {
			require.NoError(o.t, json.Unmarshal([]byte(c), &some), c)
		}
		maps.Copy(all, some)
	}
	text, err := json.Marshal(all)
	require.NoError(o.t, err)
	cfg, err := model.ParseConfig(text)
	if err != nil {
		return "", err
	}
	for _, k := range o.known {
		if reflect.DeepEqual(k.cfg, cfg) {
			return k.result, nil
		}
	}
	read := cfg
	cfg.Frozen = cfg.Encoder()
	m, err := model.New(o.st, o.reg, cfg, aclnn.Float32)
	if err != nil {
		return "", err
	}
	defer func() { require.NoError(o.t, m.Close()) }()
	if err := m.Init(o.t.Context(), 1); err != nil {
		return "", err
	}
	first, err := m.Get(o.t.Context(), m.Parameters()[0])
	require.NoError(o.t, err)
	f, err := safetensors.Open(o.folder)
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, f.Close()) }()
	if err := m.LoadFile(o.t.Context(), f); err != nil {
		return "", err
	}
	var want struct{ IDs [][]int32 }
	expected, err := os.ReadFile(filepath.Join(o.folder, "expected.json"))
	require.NoError(o.t, err)
	require.NoError(o.t, json.Unmarshal(expected, &want))
	ids := want.IDs[0]
	if cfg.Encoder() {
		states, err := m.Hidden(o.t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: make([]int32, len(ids))})
		if err == nil {
			o.known = append(o.known, outcome{read, fmt.Sprint(states, first[0], cfg.RawScores)})
		}
		return fmt.Sprint(states, first[0], cfg.RawScores), err
	}
	loss, err := m.Gradients(o.t.Context(), model.Batch{Size: 1, Length: len(ids) - 1, Inputs: ids[:len(ids)-1], Labels: ids[1:]})
	if err != nil {
		return "", err
	}
	o.known = append(o.known, outcome{read, fmt.Sprint(loss, first[0])})
	return fmt.Sprint(loss, first[0]), nil
}
