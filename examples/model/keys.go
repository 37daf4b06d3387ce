package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/examples/verdict"
)

// ConfigTable returns what becomes of each key of the config.json of a model type, one of ModelTypes or EncoderTypes. Keys that are
// not on it are refused, since a key that nobody knows may change every number.
func ConfigTable(modelType string) verdict.Table {
	f := families[modelType]
	if f.encoder != nil {
		return verdict.Table{Format: "config.json", Keys: f.encoderKeys()}
	}
	keys := slices.Concat(sizeKeys, f.attentionKeys(), f.windowKeys(), headKeys(f.class, autoMaps[modelType]...), ropeKeys("rope_parameters."), ropeKeys("rope_parameters."+fullLayer+"."), ropeKeys("rope_scaling."))
	if f.latent {
		keys = slices.DeleteFunc(keys, func(k verdict.Key) bool { return k.Name == "num_key_value_heads" || k.Name == "head_dim" })
		keys = append(keys, latentKeys...)
	}
	switch {
	case f.hybrid:
		keys = append(keys, hybridKeys...)
	case modelType == "phi3":
		keys = append(keys, phiKeys...)
	case modelType == "llama":
		keys = append(keys, verdict.Refuse("mlp_bias", "projections of feed-forward parts have no bias", "false"))
	}
	if f.normed {
		keys = append(keys, verdict.Honour("use_qk_norm", "whether attention normalises queries and keys; default false"))
	}
	if f.partial() {
		keys = append(keys, verdict.Honour("partial_rotary_factor", fmt.Sprintf("rotated fraction of a head; default %g", f.absent.PartialRotary)))
	}
	switch {
	case f.gemma:
		keys = append(keys, gemmaKeys...)
	case f.sparse:
		keys = append(keys, verdict.Refuse("hidden_act", "experts are SwiGLU, whose activation is silu", `"silu"`))
	default:
		keys = append(keys, verdict.Honour("hidden_act", "activation of the gates of feed-forward parts: silu, which is the default, gelu or gelu_pytorch_tanh"))
	}
	switch {
	case f.deepseek:
		keys = slices.Concat(keys, deepseekKeys, f.routingKeys())
	case f.clipped:
		keys = slices.Concat(keys, routerKeys, clippedKeys)
	case f.mixtral:
		keys = slices.Concat(keys, routerKeys, []verdict.Key{verdict.Honour("num_local_experts", "experts of a layer")})
	case f.sparse:
		keys = slices.Concat(keys, routerKeys, expertKeys)
	}
	if f.shared && !f.deepseek {
		keys = append(keys, verdict.Honour("shared_expert_intermediate_size", "feed-forward size of the expert that every token passes"))
	}
	return verdict.Table{Format: "config.json", Keys: append(keys, plainKeys...)}
}

// WrapperTable is that of a model that sees images, whose text part has a ConfigTable of its own.
var WrapperTable = verdict.Table{Format: "config.json", Keys: slices.Concat([]verdict.Key{
	verdict.Honour("model_type", "with _text behind it, the type of the text part that names none"),
	verdict.Honour("text_config", "configuration of the text part, which is the model"),
	verdict.Honour("tie_word_embeddings", "for a text part that does not say"),
	verdict.NoEffect("architectures", "the text part alone is read"),
	verdict.NoEffect("vision_config", "the vision tower is left out, and images are refused"),
	verdict.Honour("quantization_config", "for a text part that does not say"),
}, verdict.Each("image_token_id video_token_id vision_start_token_id vision_end_token_id vision_token_id", verdict.NoEffect("", "images are refused")), plainKeys)}

var sizeKeys = []verdict.Key{
	verdict.Honour("model_type", "chooses the family"),
	verdict.Honour("vocab_size", "rows of the embedding"),
	verdict.Honour("hidden_size", "features of a token"),
	verdict.Honour("intermediate_size", "feed-forward size"),
	verdict.Honour("num_hidden_layers", "layers"),
	verdict.Honour("num_attention_heads", "query heads"),
	verdict.Honour("num_key_value_heads", "key and value heads; default of llama and phi3: num_attention_heads"),
	verdict.Honour("head_dim", "features of a head; default of glm4_moe, llama, mistral, mixtral, phi3 and qwen2: hidden_size divided by num_attention_heads; of gemma3_text 256, of glm4 128, of gpt_oss 64"),
	verdict.Honour("rms_norm_eps", "added to the mean square of a norm; default 1e-6, of glm4_moe, gpt_oss, mixtral and phi3 1e-5, of glm4 1.5625e-7"),
	verdict.Honour("tie_word_embeddings", "whether the head is the embedding; default false, of gemma3_text true"),
	verdict.Honour("initializer_range", "standard deviation of the weights of a new model; default 0.02"),
	verdict.Honour("max_position_embeddings", "longest sequence, and from where on rope_type dynamic and longrope act"),
	verdict.Honour("rope_theta", "base of the rotation's frequencies; default 10000, of gpt_oss 150000, of mixtral 1000000"),
	verdict.Honour("original_max_position_embeddings", "that of the rotation, where its object has none (yarn, llama3, longrope)"),
}

// attentionKeys are of the projections of attention.
func (f family) attentionKeys() []verdict.Key {
	bias := verdict.Refuse("attention_bias", "projections of attention have no bias here", "false")
	switch f.biases {
	case chosenBiases:
		bias = verdict.Honour("attention_bias", "whether the projections of attention have biases; default false, of gpt_oss true")
	case inputBiases:
		bias = verdict.NoEffect("attention_bias", "the projections to queries, keys and values have biases in any case, and that to the output has none")
	case chosenInputs:
		bias = verdict.Honour("attention_bias", "whether the projections to queries, keys and values have biases; default "+strconv.FormatBool(f.absent.AttentionBias))
	}
	keys := []verdict.Key{bias, verdict.Refuse("attention_dropout", "attention has no dropout", "0")}
	if f.biases == inputBiases && f.sparse {
		keys = append(keys, verdict.Refuse("qkv_bias", "the projections to queries, keys and values have biases", "true"))
	}
	return keys
}

// windowKeys are of sliding windows.
func (f family) windowKeys() []verdict.Key {
	window := verdict.Honour("sliding_window", "tokens that a token sees, itself included, where use_sliding_window is true; default 4096")
	use := verdict.Honour("use_sliding_window", "whether there are layers with a sliding window; default false")
	types := verdict.Honour("layer_types", "full_attention, or with a window sliding_attention, for each layer")
	switch f.windows {
	case allWindows:
		window.Why = "tokens that a token sees, itself included, in all layers; null for all"
		if f.absent.Window > 0 {
			window.Why += "; default 4096"
		}
		return []verdict.Key{window}
	case allButNth:
		window.Why = "tokens that a token sees, itself included, in layers with a window; default 4096"
		return []verdict.Key{
			window, types, verdict.Honour("sliding_window_pattern", "without layer_types: every so many layers one has no window; default 6"),
			verdict.NoEffect("_sliding_window_pattern", "layer_types says it"),
		}
	case everyOther:
		window.Why = "tokens that a token sees, itself included, in layers with a window; default 128"
		types.Why = "full_attention or sliding_attention for each layer; default: these take turns, with a window first"
		return []verdict.Key{window, types}
	case switchedAll:
		types.Why = "one entry for each layer; all must be full_attention"
		return []verdict.Key{use, window, types, verdict.NoEffect("max_window_layers", "with use_sliding_window all layers have a window")}
	case switchedLater:
		return []verdict.Key{use, window, types, verdict.Honour("max_window_layers", "without layer_types: the layers from this one on have a window; default 28")}
	case switchedOther:
		return []verdict.Key{use, window, types, verdict.Honour("max_window_layers", "without layer_types: every other one of so many layers, from the first on, has a window; default 28")}
	}
	return nil
}

// autoMaps are the values of auto_map in folders from the time before transformers had the class: it computes the same.
var autoMaps = map[string][]string{"phi3": {
	`{"AutoConfig":"configuration_phi3.Phi3Config","AutoModelForCausalLM":"modeling_phi3.Phi3ForCausalLM"}`,
	`{"AutoConfig":"configuration_phi3.Phi3Config","AutoModelForCausalLM":"modeling_phi3.Phi3ForCausalLM","AutoTokenizer":"Xenova/gpt-4o"}`,
}, "deepseek_v2": {deepseekMap("V2")}, "deepseek_v3": {deepseekMap("V3")}, "kimi_k2": {deepseekMap("V3")}}

func deepseekMap(version string) string {
	const text = `{"AutoConfig":"configuration_deepseek.DeepseekV2Config","AutoModel":"modeling_deepseek.DeepseekV2Model","AutoModelForCausalLM":"modeling_deepseek.DeepseekV2ForCausalLM"}`
	return strings.ReplaceAll(text, "V2", version)
}

var phiKeys = slices.Concat(verdict.Each("resid_pdrop embd_pdrop", verdict.Refuse("", "there is no dropout", "0")),
	verdict.Each("mlp_bias lm_head_bias", verdict.Refuse("", "only the projections of other families have biases", "false")),
	verdict.Each("full_attn_mod interpolate_factor", verdict.NoEffect("", "of the folder's own code; the class in transformers does not read them")))

var gemmaKeys = slices.Concat([]verdict.Key{
	verdict.Honour("hidden_activation", "activation of the gates of feed-forward parts: gelu_pytorch_tanh, which is the default, gelu or silu"),
	verdict.Honour("query_pre_attn_scalar", "number of which the root divides the scores of attention; default 256"),
	verdict.Honour("rope_local_base_freq", "base of the rotation in layers with a window; default 10000"),
	verdict.Honour("rope_parameters."+slidingLayer+".rope_theta", "the same"),
	verdict.Refuse("rope_parameters."+slidingLayer+".rope_type", "layers with a window have the plain rotation", `"default"`),
	verdict.Refuse("use_bidirectional_attention", "a token sees those before it", "false"),
	verdict.NoEffect("cache_implementation", "how transformers keeps keys and values"),
}, verdict.Each("attn_logit_softcapping final_logit_softcapping", verdict.Refuse("", "values are not limited by a tanh")))

var hybridKeys = []verdict.Key{
	verdict.Honour("layer_types", "linear_attention, which is a gated delta net, or full_attention for each layer"),
	verdict.Honour("full_attention_interval", "without layer_types: every so many layers one has attention; default 4"),
	verdict.Honour("linear_num_key_heads", "key heads of a delta net"),
	verdict.Honour("linear_num_value_heads", "value heads of a delta net"),
	verdict.Honour("linear_key_head_dim", "features of a key of a delta net"),
	verdict.Honour("linear_value_head_dim", "features of a value of a delta net"),
	verdict.Honour("linear_conv_kernel_dim", "taps of a delta net's convolution"),
	verdict.Refuse("attn_output_gate", "the output of attention always passes a gate", "true"),
	verdict.Refuse("mamba_ssm_dtype", "states of delta nets are float32", `"float32"`),
	verdict.Refuse("use_sliding_window", "attention sees all earlier tokens", "false"),
	verdict.Refuse("sliding_window", "attention sees all earlier tokens"),
	verdict.NoEffect("mtp_num_hidden_layers", "layers that predict further tokens: left out, or drafts of -speculate"),
	verdict.NoEffect("mtp_use_dedicated_embeddings", "layers that predict further tokens with an embedding of their own are left out"),
}

var routerKeys = []verdict.Key{
	verdict.Honour("num_experts_per_tok", "experts for each token"),
	verdict.Honour("output_router_logits", "whether training adds the load balancing loss"),
	verdict.Honour("router_aux_loss_coef", "weight of that loss; default 0.001, of gpt_oss 0.9"),
	verdict.Refuse("router_jitter_noise", "routers have no noise", "0"),
}

var latentKeys = []verdict.Key{
	verdict.NoEffect("num_key_value_heads", "keys and values of all heads come from one latent"),
	verdict.NoEffect("head_dim", "qk_nope_head_dim, qk_rope_head_dim and v_head_dim say it"),
	verdict.NoEffect("qk_head_dim", "qk_nope_head_dim and qk_rope_head_dim say it"),
	verdict.Honour("q_lora_rank", "features of the latent of queries, null for none; default 1536"),
	verdict.Honour("kv_lora_rank", "features of the latent of keys and values; default 512"),
	verdict.Honour("qk_nope_head_dim", "features of a head's queries and keys that are not rotated; default 128"),
	verdict.Honour("qk_rope_head_dim", "those that are; default 64"),
	verdict.Honour("v_head_dim", "features of a head's values; default 128"),
}

var deepseekKeys = []verdict.Key{
	verdict.Honour("num_experts_per_tok", "experts for each token"),
	verdict.Honour("n_routed_experts", "experts of a layer that a router chooses from"),
	verdict.Honour("n_shared_experts", "experts that every token passes, as one of so many times the size; null for none"),
	verdict.Honour("moe_intermediate_size", "feed-forward size of an expert"),
	verdict.Honour("first_k_dense_replace", "first layers without experts"),
	verdict.Honour("n_group", "groups of experts; null for none"),
	verdict.Honour("topk_group", "groups that the experts of a token are of"),
	verdict.Honour("routed_scaling_factor", "factor of the weights of routed experts"),
	verdict.Refuse("moe_layer_freq", "every layer after the first ones has experts", "1"),
	verdict.NoEffect("ep_size", "how the reference shares out experts, not the result"),
	verdict.NoEffect("aux_loss_alpha", "transformers has no such loss either"),
	verdict.NoEffect("seq_aux", "transformers has no such loss either"),
	verdict.NoEffect("num_nextn_predict_layers", "layers that predict further tokens: left out, or drafts of -speculate"),
}

// routingKeys are of the choice of experts.
func (f family) routingKeys() []verdict.Key {
	if !f.sigmoid {
		return []verdict.Key{
			verdict.Honour("topk_method", "greedy, which is the default, or group_limited_greedy, which counts n_group and topk_group"),
			verdict.Refuse("scoring_func", "routers of this type have a softmax", `"softmax"`),
			verdict.Refuse("norm_topk_prob", "weights of experts are not scaled to a sum", "false"),
			verdict.Refuse("mlp_bias", "projections of feed-forward parts have no bias", "false"),
		}
	}
	keys := []verdict.Key{
		verdict.Refuse("topk_method", "the two best experts of a group, with the bias, say how good it is", `"noaux_tc"`),
		verdict.Refuse("scoring_func", "routers of this type have sigmoids", `"sigmoid"`),
		verdict.Honour("norm_topk_prob", "whether the weights of a token's experts are scaled to the sum 1; default true"),
	}
	if f.latent {
		keys = append(keys, verdict.Honour("rope_interleave", "whether the features of a rotated pair are neighbours; default true"))
	}
	return keys
}

var clippedKeys = []verdict.Key{
	verdict.Honour("num_local_experts", "experts of a layer"),
	verdict.NoEffect("experts_per_token", "num_experts_per_tok says it"),
	verdict.NoEffect("initial_context_length", "original_max_position_embeddings of the rotation says it"),
	verdict.Refuse("swiglu_limit", "the values of gates are limited to 7", "7"),
}

var expertKeys = []verdict.Key{
	verdict.Honour("num_experts", "experts of a layer"),
	verdict.Honour("num_local_experts", "another name of num_experts"),
	verdict.Honour("moe_intermediate_size", "feed-forward size of an expert"),
	verdict.Honour("norm_topk_prob", "whether the weights of a token's experts are scaled to the sum 1; default false for qwen2_moe and qwen3_moe, else true"),
	verdict.Honour("decoder_sparse_step", "every so many layers one has experts; default 1"),
	verdict.Honour("mlp_only_layers", "layers without experts"),
}

// headKeys name the class, of which the language model with its head, the model without one, and a classifier with one label can be read.
func headKeys(class string, maps ...string) []verdict.Key {
	name := class[:len(class)-len("ForCausalLM")]
	return []verdict.Key{
		verdict.Refuse("architectures", "only the language model of this type, and a classifier with one label, are read, which have no other heads", `["`+class+`"]`, `["`+name+`Model"]`, `["`+name+classifier+`"]`),
		verdict.Honour("quantization_config", "form of the weights, which are dequantised, or kept with -quant kept; see its tables"),
		verdict.Refuse("is_encoder_decoder", "the model is a decoder", "false"),
		verdict.Refuse("add_cross_attention", "the model is a decoder", "false"),
		verdict.Refuse("cross_attention_hidden_size", "the model is a decoder"),
		verdict.Refuse("pruned_heads", "every layer has all its heads", "{}"),
		verdict.Refuse("auto_map", "the folder brings Python code of its own, which may compute something else", append([]string{"{}"}, maps...)...),
	}
}

// ropeKeys are of an object that describes the rotation.
func ropeKeys(prefix string) (keys []verdict.Key) {
	for _, k := range []verdict.Key{
		verdict.Honour("rope_type", "default, linear, dynamic, yarn, llama3 or longrope; keys that are not of the type are refused"),
		verdict.Honour("type", "older name of rope_type; mrope stands for default, as text has one position"),
		verdict.Honour("rope_theta", "base of the frequencies"),
		verdict.Honour("partial_rotary_factor", "rotated fraction of a head"),
		verdict.Honour("factor", "how many times as long sequences become (linear, dynamic, yarn, llama3, longrope)"),
		verdict.Honour("original_max_position_embeddings", "length that the model was trained with first (yarn, llama3, longrope)"),
		verdict.Honour("attention_factor", "factor of cosines and sines (yarn, longrope)"),
		verdict.Honour("beta_fast", "rotations above which a frequency stays (yarn); default 32"),
		verdict.Honour("beta_slow", "rotations below which a frequency is divided (yarn); default 1"),
		verdict.Honour("mscale", "part of attention_factor (yarn)"),
		verdict.Honour("mscale_all_dim", "part of attention_factor (yarn)"),
		verdict.Honour("truncate", "whether the bounds of the ramp are whole numbers (yarn); default true"),
		verdict.Honour("low_freq_factor", "divides the wavelength above which a frequency is divided (llama3)"),
		verdict.Honour("high_freq_factor", "divides the wavelength below which a frequency stays (llama3)"),
		verdict.Honour("short_factor", "divisors of the frequencies up to the original length (longrope)"),
		verdict.Honour("long_factor", "divisors beyond it (longrope)"),
		verdict.NoEffect("mrope_section", "the three positions of a token of text are equal"),
		verdict.NoEffect("mrope_interleaved", "the three positions of a token of text are equal"),
	} {
		k.Name = prefix + k.Name
		keys = append(keys, k)
	}
	return keys
}

// plainKeys change no result of any family.
var plainKeys = slices.Concat(
	verdict.Each("transformers_version torch_dtype dtype _name_or_path name_or_path _commit_hash unsloth_version unsloth_fixed", verdict.NoEffect("", "where the folder came from; -dtype chooses the type of computation")),
	verdict.Each("use_cache return_dict output_attentions output_hidden_states torchscript use_bfloat16 chunk_size_feed_forward pretraining_tp _attn_implementation _attn_implementation_autoset attn_implementation gradient_checkpointing tf_legacy_loss", verdict.NoEffect("", "how transformers computes or what it returns, not the result")),
	verdict.Each("eos_token_id", verdict.Honour("", "tokens that end a text, where generation_config.json names none")),
	verdict.Each("bos_token_id pad_token_id sep_token_id cls_token_id unk_token_id decoder_start_token_id tokenizer_class prefix", verdict.NoEffect("", "the tokenizer and the chat template say which tokens there are")),
	verdict.Each("id2label num_labels", verdict.NoEffect("", "labels, of which a classifier must have one; other models have none")),
	verdict.Each("label2id problem_type finetuning_task", verdict.NoEffect("", "what the label of a classifier is called, and the loss that it was trained with")),
	verdict.Each("task_specific_params is_decoder tie_encoder_decoder", verdict.NoEffect("", "of encoders with a decoder, whose classes are refused")),
)
