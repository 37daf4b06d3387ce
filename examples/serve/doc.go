// Command serve answers requests in the form of OpenAI's interface with a model of the Qwen3 family. Many
// requests share each pass of the model and its cache of keys and values; see packages engine and api
// below it.
//
//	go run -tags emu ./examples/serve                        a small model, trained on this program's sources
//	serve -model Qwen3-0.6B -dtype bf16 -listen :8080        a Hugging Face folder, on a device
//	curl http://127.0.0.1:8080/v1/completions -d '{"model":"small","prompt":"func ","max_tokens":60}'
//
// Every flag has a variable of the environment: SERVE_MAX_TOKENS stands for -max-tokens. Flags win.
//
//	-model -adapter -dtype    what is served; -name is its name in requests
//	-quant                    w8a8: int8 weights, and inputs of their products
//	-adapters                 folder with adapters (LoRA) that requests name as their model; -adapter-slots
//	                          and -adapter-rank limit them
//	-device                   where: a device, or several with commas between, each with a replica of the model
//	-tp                       devices that share each layer, from a replica's on; or as many processes,
//	                          started by torchrun or examples/launch, of which the first serves; when one of
//	                          them ends, all do, for their launcher to start them again
//	-type -train-steps        the model that is trained without -model
//	-listen                   address; -tls-cert and -tls-key turn on TLS
//	-keys                     file with bearer tokens, a line each, of which requests need one
//	-blocks -block            cache of keys and values: blocks, and tokens of a block
//	-sequences -budget        requests that run at a time, and tokens of a step
//	-graph                    steps as graphs
//	-speculate                draft tokens of a step, from the text so far (speculative decoding)
//	-queue                    requests that wait; more get status 429 and Retry-After
//	-max-length -max-tokens   tokens of a request with its answer, and of an answer
//	-max-body -max-choices    bytes of a request, and its answers
//	-client-requests          open requests of a client
//	-deadline                 time of a request
//	-health                   time between questions to the driver for the health of the devices
//	-drain                    time that requests have to end after SIGTERM
//	-trace -trace-calls       spans of OpenTelemetry for each request and its phases, and for each launch
//	-pprof                    profiles at /debug/pprof
//
// SIGTERM and Ctrl-C let running requests end and refuse new ones; a second signal ends the program at
// once.
package main
