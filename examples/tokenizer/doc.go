// Package tokenizer turns text into token ids and back, as Hugging Face's tokenizers do
// for BPE models over bytes (GPT-2, Llama 3, the Qwen families) and over characters with bytes for the others (Llama 2,
// Mistral, Gemma).
//
//	t, err := tokenizer.Load("Qwen3-0.6B")          // reads tokenizer.json of a hub folder
//	ids, err := t.Encode("Hello, 世界")               // [9707 11 220 99489]
//	text := t.Decode(ids)
//
// A tokenizer is safe for concurrent use. Load returns an error for a tokenizer.json that needs what this package
// lacks: Unigram and WordPiece models, dropout.
// A tokenizer.json of a stranger is read, and encodes a text, in bounded time and memory, or is refused with an error that matches
// budget.ErrLimit. Patterns are found without backtracking where the syntax allows that.
// Conversations become text in package chat.
package tokenizer
