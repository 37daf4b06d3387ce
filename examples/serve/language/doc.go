// Package language turns text into the tokens of a model, and tokens into text: with the tokenizer and
// the chat template of a folder, as bytes, or as numbers for models whose tokens are unknown.
//
//	l, err := language.Load("Qwen3-0.6B", vocab)
//	ids, err := l.Chat(chat.Conversation{Messages: messages, AddGenerationPrompt: true})
//	text := l.Stream()
//	fmt.Print(text.Next(id))
package language
