// Command serve answers requests in the form of OpenAI's interface with a language model. Many
// requests share each pass of the model and its key-value cache; see its packages engine and api. Of an encoder it serves embeddings, and
// of a classifier with one label, such as a reranker, scores of documents.
//
//	go run -tags emu ./examples/serve                        a small model, trained on this program's sources
//	serve -model Qwen3-0.6B -dtype bf16 -listen :8080        a Hugging Face folder, on a device
//	curl http://127.0.0.1:8080/v1/completions -d '{"model":"small","prompt":"func ","max_tokens":60}'
//
// Every flag has an environment variable: SERVE_MAX_TOKENS stands for -max-tokens. Flags override variables.
//
//	-model -adapter -dtype    what is served; -name is its name in requests
//	-quant                    w8a8: int8 weights, and inputs of their products; kept: the weights of a quantised folder as they are
//	-cache                    int8: keys and values in int8 with a scale for each token and head
//	-judge -judge-task        no,yes: scores of documents from a language model that answers whether they meet a query (Qwen3-Reranker)
//	-adapters                 folder with adapters (LoRA) that requests name as their model; -adapter-slots
//	                          and -adapter-rank limit them
//	-device                   a device, or several separated by commas, each with a replica of the model
//	-tp                       number of devices that share each layer; or of processes, started by torchrun or
//	                          examples/launch, of which the first serves; when one process ends, all end, so
//	                          that their launcher starts them again
//	-type -train-steps        the model that is trained without -model
//	-listen                   address; -tls-cert and -tls-key turn on TLS
//	-keys                     file with a bearer token in each line; a request must have one of them
//	-monitor                  listener of its own for /healthz, /readyz, /metrics and /debug/pprof, without keys; else
//	                          they are at -listen, with keys
//	-blocks -block            key-value cache: its blocks, and the tokens of a block
//	-sequences -budget        requests that run at the same time, and tokens of a step
//	-graph                    replay steps as captured graphs
//	-speculate                draft tokens of a step, from the text so far (speculative decoding)
//	-queue                    requests that wait; further ones get status 429 and Retry-After
//	-max-length -max-tokens   tokens of a request with its answer, and of an answer
//	-max-body -max-choices    bytes of a request, and its answers
//	-client-requests          open requests of a client
//	-deadline                 time of a request
//	-health                   time between two reads of the devices' health from the driver
//	-drain                    time that requests have to end after SIGTERM
//	-trace -trace-calls       spans of OpenTelemetry for each request and its phases, and for each launch
//	-pprof                    profiles at /debug/pprof
//
// SIGTERM and Ctrl-C let running requests end and refuse new ones; a second signal ends the program at
// once.
package main
