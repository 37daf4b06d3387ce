package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/verdict"
)

// request is the body of a request, whose parameters have verdicts.
type request interface{ keys() verdict.Table }

func (*completionRequest) keys() verdict.Table { return CompletionKeys }
func (*chatRequest) keys() verdict.Table       { return ChatKeys }
func (*embeddingRequest) keys() verdict.Table  { return EmbeddingKeys }
func (*adapterRequest) keys() verdict.Table    { return AdapterKeys }
func (*rerankRequest) keys() verdict.Table     { return RerankKeys }

// common lists the parameters of both completions and chats, and the parameters of OpenAI's interface that change no answer of this server.
var common = slices.Concat(
	[]verdict.Key{
		verdict.Honour("model", "the model, or one of its adapters"),
		verdict.Honour("max_tokens", "bound of the answer's tokens"),
		verdict.Honour("n", "answers to each prompt, 128 at most"),
		verdict.Honour("stream", "send the answer as it comes"),
		verdict.Honour("stream_options.include_usage", "a last chunk with the numbers of tokens"),
		verdict.NoEffect("stream_options.include_obfuscation", "chunks are not padded"),
		verdict.Honour("stop", "texts before which an answer ends, 16 at most"),
		verdict.Honour("temperature", "of the choice of tokens; 0 takes the likeliest"),
		verdict.Honour("top_p", "only the likeliest tokens with so much probability together"),
		verdict.Honour("top_k", "only so many likeliest tokens; 0 or less for all"),
		verdict.Honour("min_p", "only tokens with at least so much of the likeliest one's probability"),
		verdict.Honour("presence_penalty", "taken from the logits of tokens that the answer has"),
		verdict.Honour("frequency_penalty", "taken from their logits for each time"),
		verdict.Honour("repetition_penalty", "divides their logits"),
		verdict.Honour("logit_bias", "added to the logits of tokens by number"),
		verdict.Honour("seed", "of the choice of tokens"),
		verdict.Honour("response_format.type", "text, json_object or json_schema"),
		verdict.Honour("response_format.json_schema.schema", "schema that the answer follows"),
		verdict.NoEffect("response_format.json_schema.strict", "an answer always follows its schema"),
		verdict.Refuse("modalities", "answers are text", `["text"]`),
	},
	verdict.Each("response_format.json_schema.name response_format.json_schema.description", verdict.NoEffect("", "for people")),
	verdict.Each("user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention prediction", verdict.NoEffect("", "of OpenAI's own service")),
)

// CompletionKeys is the table of the body of /v1/completions.
var CompletionKeys = verdict.Table{Format: "/v1/completions", Keys: slices.Concat(common, []verdict.Key{
	verdict.Honour("prompt", "a text, texts, tokens, or lists of tokens"),
	verdict.Honour("logprobs", "so many likeliest tokens of each place with their probabilities"),
	verdict.Honour("echo", "the prompt before the answer, with logprobs with its probabilities"),
	verdict.Refuse("suffix", "it is not supported", `""`),
	verdict.Honour("best_of", "refused unless it is n"),
})}

// ChatKeys is the table of the body of /v1/chat/completions.
var ChatKeys = verdict.Table{Format: "/v1/chat/completions", Keys: slices.Concat(common, []verdict.Key{
	verdict.Honour("messages", "the conversation; what the chat template reads of its messages"),
	verdict.Honour("max_completion_tokens", "bound of the answer's tokens, before max_tokens"),
	verdict.Honour("logprobs", "the probabilities of the answer's tokens"),
	verdict.Honour("top_logprobs", "with logprobs, so many likeliest tokens of each place"),
	verdict.Honour("tools", "what the model may call"),
	verdict.Honour("tool_choice", "none, auto, required, or a function by name"),
	verdict.Honour("parallel_tool_calls", "false for one call at most"),
	verdict.Honour("chat_template_kwargs", "further variables of the chat template"),
	verdict.Refuse("functions", "it is not supported; use tools", "[]"),
	verdict.NoEffect("function_call", "of functions, which are refused"),
})}

// EmbeddingKeys is the table of the body of /v1/embeddings.
var EmbeddingKeys = verdict.Table{Format: "/v1/embeddings", Keys: []verdict.Key{
	verdict.Honour("model", "the model"),
	verdict.Honour("input", "a text, texts, tokens, or lists of tokens"),
	verdict.Honour("encoding_format", "float or base64"),
	verdict.Refuse("dimensions", "the model has embeddings of one size"),
	verdict.NoEffect("user", "of OpenAI's own service"),
}}

// RerankKeys is the table of the body of /v1/rerank.
var RerankKeys = verdict.Table{Format: "/v1/rerank", Keys: []verdict.Key{
	verdict.Honour("model", "the model"),
	verdict.Honour("query", "a text"),
	verdict.Honour("documents", "texts, or objects with one, that get a score each"),
	verdict.Honour("top_n", "only so many of the best"),
	verdict.Honour("return_documents", "the documents beside their scores"),
	verdict.NoEffect("user", "of OpenAI's own service"),
}}

// AdapterKeys is the table of the bodies of /v1/load_lora_adapter and /v1/unload_lora_adapter.
var AdapterKeys = verdict.Table{Format: "/v1/load_lora_adapter, /v1/unload_lora_adapter", Keys: []verdict.Key{
	verdict.Honour("lora_name", "name of the adapter, as requests give it in model"),
	verdict.Honour("lora_path", "its folder below that of the server; the name if it is left out"),
	verdict.NoEffect("lora_int_id", "a number of vLLM's own"),
}}

// known refuses parameters that the table of a request does, and bodies that have one twice.
func known(text []byte, to request) error {
	_, err := to.keys().Check(text)
	var refused *verdict.Refusal
	if errors.As(err, &refused) {
		return badParameter(refused.Key, strings.Replace(refused.Why, "this key is not known", "the server does not know this parameter", 1))
	}
	if err != nil {
		return &Error{Status: http.StatusBadRequest, Message: err.Error(), Type: invalid}
	}
	return nil
}
