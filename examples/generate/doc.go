// Command generate continues a prompt with a model of the Qwen3 family. It reads the whole prompt
// at once, then one token at a time, with a key-value cache and the states of delta nets.
//
//	go run -tags emu ./examples/generate -prompt package -n 300
//	go run -tags emu ./examples/generate -type qwen3_next -temperature 0.8 -top-k 40 -top-p 0.95 -seed 7
//	generate -model Qwen3-0.6B -chat -prompt Hello
//	generate -model Qwen3-0.6B -ids 785,3974,13876
//
// Without -model it first trains a small byte-level model on its own sources. -model is the folder of
// trainstep -save, or a Hugging Face folder with config.json and safetensors. A folder with
// tokenizer.json reads and writes text, as models of bytes do; other models read and write token ids.
package main
