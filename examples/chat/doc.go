// Package chat writes conversations as the text that a hub model was trained on, with the chat
// template of its folder.
//
//	t, err := chat.Load("Qwen3-0.6B")        // chat_template.jinja, or tokenizer_config.json
//	p, err := t.Render(chat.Conversation{
//		Messages: []chat.Message{{Role: "user", Content: "Hello"}},
//		AddGenerationPrompt: true,
//	})
//	ids, err := tok.Encode(p.Text)           // package tokenizer
//
// Templates are run by package jinja. This package does not check roles or their order: the
// templates do, and a refusal is a *jinja.Raised.
package chat
