package api

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/goascend/cann/examples/serve/tools"
)

// tool is a tool that a model may call.
type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     *bool           `json:"strict"`
	} `json:"function"`
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// calls holds the fields of a request that concern tools.
type calls struct {
	form   tools.Form
	names  []string
	schema []byte // that the whole answer must follow, or nil
	single bool   // one call at most
}

// calls reads tools and tool_choice. None are passed on with the choice "none".
func (q *chatRequest) calls(form tools.Form) (c calls, err error) {
	if len(q.Tools) == 0 {
		if len(q.Choice) > 0 && string(q.Choice) != "null" && string(q.Choice) != `"none"` && string(q.Choice) != `"auto"` {
			return c, badParameter("tool_choice", "it needs tools")
		}
		return c, nil
	}
	if name := form.Unread(); name != "" {
		return c, badParameter("tools", "calls of tools in the form of "+name+", which the model's chat template has, are not read (those of Hermes, Qwen and Llama are)")
	}
	if form == tools.None {
		return c, badParameter("tools", "the model's chat template has no tools whose calls the server reads (Hermes, Qwen, Llama)")
	}
	parameters, strict := map[string]json.RawMessage{}, ""
	for i, raw := range q.Tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return c, badParameter("tools", fmt.Sprintf("tool %d: %v", i, err))
		}
		name := t.Function.Name
		switch {
		case t.Type != "function":
			return c, badParameter("tools", fmt.Sprintf("tool %d has the type %q; it must be function", i, t.Type))
		case !toolName.MatchString(name):
			return c, badParameter("tools", fmt.Sprintf("tool %d has the name %q; it needs 1 to 64 letters, digits, - and _", i, name))
		case parameters[name] != nil:
			return c, badParameter("tools", fmt.Sprintf("tool %d has the name %q, which another has", i, name))
		}
		parameters[name] = json.RawMessage(`{"type":"object"}`)
		if p := t.Function.Parameters; len(p) > 0 && string(p) != "null" {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(p, &object); err != nil {
				return c, badParameter("tools", fmt.Sprintf("tool %d: parameters is no JSON schema of an object", i))
			}
			if len(object) > 0 {
				parameters[name] = p
			}
		}
		if t.Function.Strict != nil && *t.Function.Strict {
			strict = name
		}
		c.names = append(c.names, name)
	}
	c.form, c.single = form, q.Parallel != nil && !*q.Parallel
	if err := c.choose(q.Choice, parameters); err != nil {
		return c, err
	}
	if strict != "" && c.names != nil && c.schema == nil {
		return c, badParameter("tools", fmt.Sprintf("the tool %q has strict, and calls follow their schemas only with the tool_choice required or a function; leave strict out", strict))
	}
	return c, nil
}

// choose reads tool_choice.
func (c *calls) choose(choice json.RawMessage, parameters map[string]json.RawMessage) error {
	var word string
	var named tool
	switch {
	case len(choice) == 0 || string(choice) == "null":
	case json.Unmarshal(choice, &word) == nil:
		switch word {
		case "auto":
		case "none":
			*c = calls{}
		case "required":
			var each []map[string]any
			for _, name := range c.names {
				each = append(each, map[string]any{"type": "object", "additionalProperties": false, "required": []string{"name", "arguments"}, "properties": ordered{{"name", map[string]any{"const": name}}, {"arguments", parameters[name]}}})
			}
			list := map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"anyOf": each}}
			if c.single {
				list["maxItems"] = 1
			}
			var err error
			c.form = tools.List
			c.schema, err = json.Marshal(list)
			return err
		default:
			return badParameter("tool_choice", fmt.Sprintf("%q is not none, auto or required", word))
		}
	case json.Unmarshal(choice, &named) == nil && named.Type == "function":
		name := named.Function.Name
		if parameters[name] == nil {
			return badParameter("tool_choice", fmt.Sprintf("there is no tool %q", name))
		}
		c.form, c.names, c.schema = tools.Arguments, []string{name}, parameters[name]
	default:
		return badParameter("tool_choice", "it is neither a text nor a function")
	}
	return nil
}

// ordered is an object whose members stand in their order.
type ordered []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			text = append(text, ',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, quoted(m.name)...), ':'), value...)
	}
	return append(text, '}'), nil
}

// toolCall is a call of a tool in an answer, or in a message of an assistant.
type toolCall struct {
	Index    *int           `json:"index,omitempty"` // in streams
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
