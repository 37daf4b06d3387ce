package hub

import (
	"slices"

	"github.com/goascend/cann/examples/verdict"
)

const (
	choosing  = "flags and requests say how tokens are chosen, not the folder"
	images    = "images, sound and video are refused"
	written   = "who wrote the file"
	converted = "weights are taken from safetensors"
	quantised = "config.json says how the weights are quantised"
)

// GenerationConfig is the table of generation_config.json.
var GenerationConfig = verdict.Table{Format: "generation_config.json", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{
		verdict.Honour("eos_token_id", "tokens that end a text"),
		verdict.Warn("do_sample", choosing, "false"),
		verdict.Warn("temperature", choosing, "1"),
		verdict.Warn("top_k", choosing, "50", "0"),
		verdict.Warn("top_p", choosing, "1"),
		verdict.Warn("min_p", choosing, "0"),
		verdict.Warn("typical_p", choosing, "1"),
		verdict.Warn("repetition_penalty", choosing, "1"),
		verdict.Warn("epsilon_cutoff", choosing, "0"),
		verdict.Warn("eta_cutoff", choosing, "0"),
		verdict.Warn("max_length", "flags and requests bound an answer", "20"),
		verdict.Warn("max_new_tokens", "flags and requests bound an answer"),
		verdict.Warn("max_time", "requests have a deadline"),
		verdict.Warn("min_length", "an answer may be empty", "0"),
		verdict.Warn("min_new_tokens", "an answer may be empty", "0"),
		verdict.Warn("stop_strings", "requests say where to stop"),
		verdict.Refuse("num_beams", "there is no beam search", "1"),
		verdict.Refuse("num_beam_groups", "there is no beam search", "1"),
		verdict.Refuse("constraints", "there is no beam search"),
		verdict.Refuse("force_words_ids", "there is no beam search"),
		verdict.Refuse("penalty_alpha", "there is no contrastive search"),
		verdict.Refuse("dola_layers", "there is no contrast between layers"),
		verdict.Refuse("guidance_scale", "there is no guidance by a second prompt", "1"),
		verdict.Refuse("no_repeat_ngram_size", "nothing keeps n-grams from repeating", "0"),
		verdict.Refuse("bad_words_ids", "no tokens are kept out; requests may bias them"),
		verdict.Refuse("suppress_tokens", "no tokens are kept out; requests may bias them"),
		verdict.Refuse("begin_suppress_tokens", "no tokens are kept out; requests may bias them"),
		verdict.Refuse("sequence_bias", "no tokens are kept out; requests may bias them"),
		verdict.Refuse("forced_bos_token_id", "no token is forced"),
		verdict.Refuse("forced_eos_token_id", "no token is forced"),
		verdict.Refuse("exponential_decay_length_penalty", "nothing favours the end of a text"),
		verdict.Refuse("watermarking_config", "texts have no watermark"),
		verdict.Refuse("token_healing", "the end of a prompt stays as it is", "false"),
	},
	verdict.Each("length_penalty early_stopping diversity_penalty low_memory num_return_sequences", verdict.NoEffect("", "of beam search, which is refused, or how many answers transformers returns")),
	verdict.Each("encoder_no_repeat_ngram_size encoder_repetition_penalty decoder_start_token_id", verdict.NoEffect("", "of encoders with a decoder, which are refused")),
	verdict.Each("bos_token_id pad_token_id", verdict.NoEffect("", "the tokenizer and the chat template say which tokens there are")),
	verdict.Each("_from_model_config transformers_version trust_remote_code generation_kwargs", verdict.NoEffect("", written)),
	verdict.Each("use_cache cache_implementation cache_config return_legacy_cache output_attentions output_hidden_states output_scores output_logits return_dict_in_generate prefill_chunk_size compile_config disable_compile", verdict.NoEffect("", "how transformers computes or what it returns, not the result")),
	verdict.Each("renormalize_logits remove_invalid_values", verdict.NoEffect("", "probabilities add up to one, and logits with NaN are an error")),
	verdict.Each("is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold assistant_early_exit assistant_lookbehind target_lookbehind prompt_lookup_num_tokens max_matching_ngram_size", verdict.NoEffect("", "speculation does not change the tokens")),
)}

const special = "a variable of chat templates"

// TokenizerConfig is the table of tokenizer_config.json.
var TokenizerConfig = verdict.Table{Format: "tokenizer_config.json", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{verdict.Honour("chat_template", "template of conversations, or several by name, where there is no chat_template.jinja")},
	verdict.Each("bos_token eos_token unk_token sep_token pad_token cls_token mask_token", verdict.Honour("", special)),
	[]verdict.Key{
		verdict.Warn("add_bos_token", "the post-processor of tokenizer.json says which tokens stand around a text", "false"),
		verdict.Warn("add_eos_token", "the post-processor of tokenizer.json says which tokens stand around a text", "false"),
		verdict.Warn("add_prefix_space", "tokenizer.json says how a text is split", "false"),
		verdict.Warn("clean_up_tokenization_spaces", "answers keep their spaces before punctuation", "false"),
		verdict.Warn("do_lower_case", "the normaliser of tokenizer.json says what becomes of letters", "false"),
		verdict.Refuse("split_special_tokens", "special tokens in a text are always recognised", "false"),
	},
	verdict.Each("tokenizer_class backend tokenizer_file vocab_file merges_file name_or_path processor_class auto_map model_input_names is_local local_files_only use_fast from_slow legacy fix_mistral_regex sp_model_kwargs tokenizer_object added_tokens_decoder additional_special_tokens extra_special_tokens model_specific_special_tokens unk_id max_length stride strategy", verdict.NoEffect("", "tokenizer.json has the tokenizer and its added tokens")),
	verdict.Each("model_max_length", verdict.NoEffect("", "max_position_embeddings of config.json bounds a text")),
	verdict.Each("padding_side truncation_side pad_to_multiple_of pad_token_type_id padding truncation truncation_strategy", verdict.NoEffect("", "texts are neither padded nor cut by the tokenizer")),
	verdict.Each("errors spaces_between_special_tokens use_default_system_prompt", verdict.NoEffect("", "of tokenizers in Python")),
	verdict.Each("image_token video_token audio_token vision_bos_token vision_eos_token audio_bos_token audio_eos_token boi_token eoi_token", verdict.NoEffect("", images)),
	verdict.Each("response_template response_schema", verdict.NoEffect("", "answers are returned as text")),
)}

// PiecesConfig is the table of tokenizer_config.json in a folder without a tokenizer.json, whose tokenizer.model is a model of SentencePiece.
var PiecesConfig = func() verdict.Table {
	own := map[string]verdict.Key{}
	for _, k := range []verdict.Key{
		verdict.Honour("add_bos_token", "bos_token stands before a text"),
		verdict.Honour("add_eos_token", "eos_token stands behind a text"),
		verdict.Honour("add_prefix_space", "a space before a text, in the place of the model's add_dummy_prefix"),
		verdict.Honour("legacy", "the space stands before each part of a text between special tokens, not before the first alone"),
		verdict.Honour("added_tokens_decoder", "further tokens, found before a text is cut"),
		verdict.Refuse("sp_model_kwargs", "pieces are not sampled", "{}"),
		verdict.Refuse("do_lower_case", "the model's table of characters says what becomes of letters", "false"),
	} {
		own[k.Name] = k
	}
	t := verdict.Table{Format: "tokenizer_config.json beside tokenizer.model", Unknown: verdict.Warned}
	for _, k := range TokenizerConfig.Keys {
		if one, ok := own[k.Name]; ok {
			k = one
		}
		t.Keys = append(t.Keys, k)
	}
	return t
}()

// SpecialTokensMap is the table of special_tokens_map.json.
var SpecialTokensMap = verdict.Table{Format: "special_tokens_map.json", Unknown: verdict.Warned, Keys: slices.Concat(
	verdict.Each("bos_token eos_token unk_token sep_token pad_token cls_token mask_token", verdict.Honour("", special+", where tokenizer_config.json has none")),
	verdict.Each("additional_special_tokens extra_special_tokens", verdict.NoEffect("", "tokenizer.json has the added tokens")),
	verdict.Each("image_token video_token audio_token vision_bos_token vision_eos_token", verdict.NoEffect("", images)),
)}

// ChatTemplate is the table of chat_template.json, which processors of images have.
var ChatTemplate = verdict.Table{Format: "chat_template.json", Keys: []verdict.Key{verdict.Honour("chat_template", "template of conversations, where no other file has one")}}

// Processor is the table of the configurations of processors of images, sound and video.
var Processor = verdict.Table{Format: "preprocessor_config.json, processor_config.json, video_preprocessor_config.json", Unknown: verdict.Harmless,
	Keys: []verdict.Key{verdict.NoEffect("image_processor_type", images), verdict.NoEffect("processor_class", images)}}

// Module is the table of each entry of modules.json.
var Module = verdict.Table{Format: "modules.json", Keys: []verdict.Key{
	verdict.Honour("type", "Transformer, Pooling and Normalize of sentence_transformers; others are refused"),
	verdict.Honour("path", "folder of the module"),
	verdict.NoEffect("idx", "the order in the file counts"),
	verdict.NoEffect("name", "a label"),
}}

// Pooling is the table of the config.json of a pooling module.
var Pooling = verdict.Table{Format: "1_Pooling/config.json", Keys: []verdict.Key{
	verdict.Honour("pooling_mode_mean_tokens", "the mean of all states"),
	verdict.Honour("pooling_mode_cls_token", "the first state"),
	verdict.Honour("pooling_mode_lasttoken", "the last state"),
	verdict.Honour("pooling_mode", "mean, cls or lasttoken in one word"),
	verdict.Refuse("pooling_mode_max_tokens", "there is no maximum of the states", "false"),
	verdict.Refuse("pooling_mode_mean_sqrt_len_tokens", "there is no sum over the root of the length", "false"),
	verdict.Refuse("pooling_mode_weightedmean_tokens", "there is no weighted mean", "false"),
	verdict.Refuse("include_prompt", "a prompt counts as the rest of a text", "true"),
	verdict.NoEffect("word_embedding_dimension", "hidden_size of config.json"),
	verdict.NoEffect("embedding_dimension", "hidden_size of config.json"),
}}

// Sentence is the table of sentence_bert_config.json, whose name may have another model's in the place of bert.
var Sentence = verdict.Table{Format: "sentence_bert_config.json", Keys: []verdict.Key{
	verdict.Warn("max_seq_length", "longer texts are not cut to this length"),
	verdict.Honour("do_lower_case", "texts become lower case before they are encoded"),
}}

// SentenceTransformers is the table of config_sentence_transformers.json.
var SentenceTransformers = verdict.Table{Format: "config_sentence_transformers.json", Unknown: verdict.Warned, Keys: []verdict.Key{
	verdict.Warn("prompts", "texts are embedded as they are: write the prompt before a query", "{}", `{"query":"","document":""}`),
	verdict.Refuse("default_prompt_name", "texts are embedded as they are"),
	verdict.Refuse("similarity_fn_name", "embeddings have length one and are compared by their cosine", `"cosine"`, `"dot"`),
	verdict.NoEffect("__version__", written),
	verdict.NoEffect("model_type", written),
}}
