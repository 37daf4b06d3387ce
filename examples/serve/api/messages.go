package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// roles are those of OpenAI's interface, by the name that templates of chats know.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": assistant, "tool": "tool", "function": "function"}

// plain returns messages as templates of chats read them: each content is one text. A list of texts becomes a text
// with a line for each, since templates for text leave lists out without a word.
func plain(messages []json.RawMessage) (all []json.RawMessage, err error) {
	for i, m := range messages {
		if m, err = plainMessage(m); err != nil {
			return nil, badParameter("messages", fmt.Sprintf("message %d %v", i, err))
		}
		all = append(all, m)
	}
	return all, nil
}

func plainMessage(text json.RawMessage) (json.RawMessage, error) {
	var m map[string]json.RawMessage
	var role string
	if json.Unmarshal(text, &m) != nil || m == nil {
		return nil, fmt.Errorf("is not an object")
	}
	_ = json.Unmarshal(m["role"], &role) // a role that is no text is unknown
	known, ok := roles[role]
	if !ok {
		return nil, fmt.Errorf("has the role %q; use system, developer, user, assistant or tool", role)
	}
	content, given := m["content"]
	if given = given && string(content) != "null"; !given && role != assistant { // an assistant may have called tools only
		return nil, fmt.Errorf("has no content")
	}
	changed := known != role
	if given {
		whole, err := contentOf(content)
		if err != nil {
			return nil, err
		}
		if content[0] != '"' {
			m["content"], changed = quoted(whole), true
		}
	}
	if calls := m["tool_calls"]; len(calls) > 0 && string(calls) != "null" {
		if role != assistant {
			return nil, fmt.Errorf("has tool_calls and the role %s; an assistant calls tools", role)
		}
		whole, err := called(calls)
		if err != nil {
			return nil, err
		}
		m["tool_calls"], changed = whole, true
	}
	if role == "tool" {
		var id string
		if json.Unmarshal(m["tool_call_id"], &id) != nil || id == "" {
			return nil, fmt.Errorf("has no tool_call_id, which says which call it answers")
		}
	}
	if !changed {
		return text, nil
	}
	m["role"] = quoted(known)
	return json.Marshal(m)
}

// called reads the calls of tools of a message. Templates get their arguments as objects, not as texts.
func called(text json.RawMessage) (json.RawMessage, error) {
	var calls []toolCall
	if err := json.Unmarshal(text, &calls); err != nil {
		return nil, fmt.Errorf("has tool_calls that are no list of calls: %v", err)
	}
	var all []ordered
	for i, c := range calls {
		arguments := strings.TrimSpace(c.Function.Arguments)
		var object map[string]json.RawMessage
		switch {
		case c.Type != "function" || c.Function.Name == "":
			return nil, fmt.Errorf("has a call %d of type %q and name %q; it must be a function with a name", i, c.Type, c.Function.Name)
		case json.Unmarshal([]byte(arguments), &object) != nil || object == nil:
			return nil, fmt.Errorf("has a call %d whose arguments are no JSON object in a text: %q", i, arguments)
		}
		all = append(all, ordered{{"id", c.ID}, {"type", c.Type}, {"function", ordered{{"name", c.Function.Name}, {"arguments", json.RawMessage(arguments)}}}})
	}
	return json.Marshal(all)
}

// contentOf reads a text, or a list of parts that are texts.
func contentOf(content json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", fmt.Errorf("has a content that is neither a text nor a list of parts")
	}
	var texts []string
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("has a part of type %s; the server reads text only", p.Type)
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n"), nil
}

func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // texts have no errors
	return b
}
