// Command embed writes the embeddings of texts, or sorts texts by their similarity to a query. It uses the engine of
// examples/serve without its server. An embedding is the mean, the first or the last of the
// model's last states, as the folder's modules.json says, scaled to length one.
//
//	printf 'a red fox\na blue whale\n' | embed -model Qwen3-Embedding-0.6B -query 'animals of the sea'
//	embed -model bge-small-en-v1.5 one two
//	go run -tags emu ./examples/embed one two
//
// Texts are the arguments, or the lines of the standard input. Without -query each becomes a line of JSON.
// Without -model the program first trains a small byte-level model, whose vectors mean little.
package main
