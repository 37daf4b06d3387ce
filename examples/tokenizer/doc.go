// Package tokenizer turns text into token ids and back, as Hugging Face's tokenizers do
// for BPE models over bytes (GPT-2, Llama 3, the Qwen families) and over characters with bytes for the others (Llama 2,
// Mistral, Gemma), for WordPiece (BERT, BGE) and Unigram (XLM-RoBERTa, T5), and as SentencePiece does for its models (tokenizer.model) in folders without a
// tokenizer.json. There control pieces in a text are tokens, as in transformers, and each part between them is encoded by itself; the space that
// SentencePiece puts before a text stands before the first part, and with "legacy" in tokenizer_config.json before each. transformers 5 drops it
// before a text that begins with a space, SentencePiece and this package do not.
//
//	t, err := tokenizer.Load("Qwen3-0.6B")          // reads tokenizer.json of a hub folder
//	ids, err := t.Encode("Hello, 世界")               // [9707 11 220 99489]
//	text := t.Decode(ids)
//
// A tokenizer is safe for concurrent use. Load returns an error for a tokenizer.json that needs what this package
// lacks: WordLevel models, SentencePiece's models of words, dropout. Characters whose category changed between versions of Unicode may be split in
// another way.
// A tokenizer.json of a stranger is read, and encodes a text, in bounded time and memory, or is refused with an error that matches
// budget.ErrLimit. Patterns are found without backtracking where the syntax allows that.
// Pairs of texts, as rerankers read them, are encoded as the post-processor says. Conversations become text in package chat.
package tokenizer
