// Package tools reads the calls of tools out of the answers of a model, in the form that its chat template has:
//
//	form := tools.FormOf(template)                    // Hermes and Qwen, or Llama
//	r := form.Reader([]string{"get_weather"})         // names of the tools of a conversation
//	text, calls := r.Next("<tool_call>\n{\"name\": …") // as the text comes
//	text, calls = r.Flush()                           // at its end
//
// What is no call stays text: JSON that is broken, a tool that the conversation does not have, arguments that are no object.
package tools
