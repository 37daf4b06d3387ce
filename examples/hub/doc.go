// Package hub says what becomes of the files in a model's folder beside config.json and the weights: those of
// Hugging Face's libraries have tables of their keys, which the packages that read them follow, and every other file
// is known to be without effect or named in a warning.
//
//	warnings, err := hub.Check("Qwen3-0.6B")
package hub
