// Package api serves an engine over HTTP, in the form of OpenAI's interface.
//
//	s, err := api.New(api.Config{Engine: e, Language: l, Model: "qwen3"})
//	http.ListenAndServe(":8080", s)
//
//	GET  /                       a page to chat with the model
//	POST /v1/completions         text, lists of texts, tokens; n, logprobs, stop, stream, echo (with logprobs also of the prompt), max_tokens 0
//	POST /v1/chat/completions    messages; n, logprobs, stop, stream, response_format (JSON of a schema), tools and tool_choice
//	POST /v1/embeddings          texts or tokens, as numbers or base64: of the last states, as the folder's modules.json says
//	POST /v1/rerank              query, documents, top_n, return_documents: index and relevance_score of each, the best first, from a classifier
//	GET  /v1/models              the model and the adapters (LoRA) that requests can name in its place
//	POST /v1/load_lora_adapter   {"lora_name":"x"} loads an adapter from Config.Adapters; unload_lora_adapter
//	GET  /healthz  /readyz       200, or 503 while the device is down or the server drains
//	GET  /metrics                for Prometheus, with the names that vLLM's dashboards use
//
// Beside OpenAI's parameters, requests may have top_k, min_p, repetition_penalty, and
// chat_template_kwargs. Parameters that the server does not know, and those that it cannot honour, such as tools,
// are refused. Contents of messages are texts, or lists of texts.
package api
