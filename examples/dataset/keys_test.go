package dataset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/verdict"
)

// learning lists what is learnt of a file of samples, or why none of its samples can be used.
func learning(t *testing.T, o dataset.Options, line map[string]any) (rows []dataset.Row, margins []float64, report dataset.Report) {
	text, err := json.Marshal(line)
	require.NoError(t, err)
	d := open(t, write(t, "a.jsonl", string(text)), o)
	if o.Pairs > 0 {
		rows, margins, err = d.Pairs(1, 1)
	} else {
		rows, err = d.Rows(1, 512, dataset.Padded, 1)
	}
	require.Equal(t, err != nil, d.Report().Bad > 0, "%v", err)
	return rows, margins, d.Report()
}

// TestEveryKey changes each key of a sample, and of a turn of ShareGPT's conversations, to another legal value. That changes what is
// learnt; or the key is on the list without effect, and changes nothing; or the report names it; or it makes the sample a bad one, by its name.
func TestEveryKey(t *testing.T) {
	folder := filepath.Dir(write(t, "chat_template.jinja", "{{ style }}{% for f in tools or [] %}[{{ f }}]{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}|{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte(`{"eos_token": "|"}`), 0o600))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	plain := dataset.Options{End: -1, Template: template}
	pairs := dataset.Options{End: -1, Template: template, Pairs: 512}
	type object = map[string]any
	turns := func(last object) []any { return []any{object{"from": "human", "value": "q"}, last} }
	said := []any{object{"role": "user", "content": "q"}, object{"role": "assistant", "content": "a"}}
	prompt := object{"prompt": "q", "response": "a"}
	check := func(t *testing.T, o dataset.Options, k verdict.Key, base, changed object, value any) {
		want, margins, report := learning(t, o, base)
		require.Zero(t, report.Bad, "%v", report)
		require.Empty(t, report.Unread)
		got, others, report := learning(t, o, changed)
		switch k.Kind {
		case verdict.Honoured:
			require.Zero(t, report.Bad, "%v", report)
			require.NotEqual(t, []any{want, margins}, []any{got, others}, "%s is honoured, and %v changes nothing", k.Name, value)
		case verdict.Refused:
			require.ErrorContains(t, report.FirstBad, k.Name+" is ")
		case verdict.Warned:
			require.Equal(t, want, got)
			require.Len(t, report.Unread, 1)
			require.Contains(t, report.Unread[0], k.Name)
			require.Contains(t, report.String(), "not read of samples: "+report.Unread[0])
			strict := o
			strict.Strict = true
			_, _, report = learning(t, strict, changed)
			require.ErrorContains(t, report.FirstBad, k.Name+" is ")
		default:
			require.Equal(t, want, got)
			require.Empty(t, report.Unread)
		}
	}
	for _, k := range append(dataset.Keys.Keys, verdict.Key{Name: "nobody_knows", Kind: dataset.Keys.Unknown}) {
		t.Run(k.Name, func(t *testing.T) {
			o, base, value := plain, prompt, any("other")
			switch k.Name {
			case "text":
				base = object{"text": "some"}
			case "messages":
				base, value = object{"messages": said}, append(said[:1:1], object{"role": "assistant", "content": "b"})
			case "conversations":
				base, value = object{"conversations": turns(object{"from": "gpt", "value": "a"})}, turns(object{"from": "gpt", "value": "b"})
			case "tools":
				value = []any{"f"}
			case "history":
				value = [][]string{{"h", "i"}}
			case "chat_template_kwargs":
				value = object{"style": "s"}
			case "query", "instruction":
				base = object{k.Name: "q", "response": "a"}
			case "input":
				base = object{"instruction": "q", "response": "a"}
			case "completion", "output":
				base = object{"prompt": "q", k.Name: "a"}
			case "chosen", "rejected":
				o, base = pairs, object{"prompt": "q", "chosen": "a", "rejected": "b"}
			case "margin":
				o, base, value = pairs, object{"prompt": "q", "chosen": "a", "rejected": "b"}, 2
			case "rejected_response":
				o, base = pairs, object{"prompt": "q", "response": "a", "rejected_response": "b"}
			case "rejected_messages":
				o, base, value = pairs, object{"messages": said, "rejected_messages": append(said[:1:1], object{"role": "assistant", "content": "b"})}, append(said[:1:1], object{"role": "assistant", "content": "c"})
			case "label":
				value = false
			}
			changed := maps.Clone(base)
			changed[k.Name] = value
			if k.Name == "margin" { // without two answers it would not be read
				_, _, report := learning(t, plain, object{"prompt": "q", "response": "a", "margin": value})
				require.ErrorContains(t, report.FirstBad, "margin is 2: it is for losses that compare two answers")
			}
			check(t, o, k, base, changed, value)
		})
	}
	for _, k := range append(dataset.TurnKeys.Keys, verdict.Key{Name: "nobody_knows", Kind: dataset.TurnKeys.Unknown}) {
		t.Run("turn "+k.Name, func(t *testing.T) {
			last, value := object{"from": "gpt", "value": "a"}, any("other")
			switch k.Name {
			case "from":
				value = "human"
			case "loss":
				value = false
			case "weight":
				value = 0
			}
			// Two answers, so that a sample without the second one has something to learn.
			with := func(last object) object {
				return object{"conversations": append([]any{object{"from": "human", "value": "p"}, object{"from": "gpt", "value": "o"}}, turns(last)...)}
			}
			changed := maps.Clone(last)
			changed[k.Name] = value
			check(t, plain, k, with(last), with(changed), value)
		})
	}
}

// TestEveryMessageKey is TestEveryKey of the keys of a message, in all lists that have messages.
func TestEveryMessageKey(t *testing.T) {
	folder := filepath.Dir(write(t, "chat_template.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.reasoning_content }}{% if m.role == 'assistant' %}|{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"))
	// An answer ends with this token; without it, it would reach to the end of the text.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte(`{"eos_token": "|"}`), 0o600))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	type object = map[string]any
	user, first := object{"role": "user", "content": "q"}, object{"role": "assistant", "content": "o"}
	lists := map[string]func(last object) object{
		"messages":      func(last object) object { return object{"messages": []any{user, first, user, last}} },
		"conversations": func(last object) object { return object{"conversations": []any{user, first, user, last}} },
		"chosen": func(last object) object {
			return object{"prompt": []any{user}, "chosen": []any{last}, "rejected": []any{first}}
		},
		"rejected": func(last object) object {
			return object{"prompt": []any{user}, "chosen": []any{first}, "rejected": []any{last}}
		},
		"rejected_messages": func(last object) object {
			return object{"messages": []any{user, first}, "rejected_messages": []any{user, last}}
		},
	}
	for list, with := range lists {
		for _, k := range append(dataset.MessageKeys.Keys, verdict.Key{Name: "reasoning_content", Kind: verdict.Honoured}, verdict.Key{Name: "nobody_knows", Kind: dataset.MessageKeys.Unknown}) {
			t.Run(list+" "+k.Name, func(t *testing.T) {
				o := dataset.Options{End: -1, Template: template}
				if list != "messages" && list != "conversations" {
					o.Pairs = 512
				}
				value := any("other")
				last := object{"role": "assistant", "content": "a"}
				changed := maps.Clone(last)
				switch k.Name {
				case "role":
					value = "user"
				case "loss":
					value = false
				case "weight":
					value = 0
				}
				changed[k.Name] = value
				want, _, report := learning(t, o, with(last))
				require.Zero(t, report.Bad, "%v", report)
				got, _, report := learned(t, o, with(changed))
				switch k.Kind {
				case verdict.Honoured:
					require.Zero(t, report.Bad, "%v", report)
					require.NotEqual(t, want, got)
				case verdict.Refused:
					if k.Name == "from" && (list == "conversations" || list == "chosen" || list == "rejected") {
						require.ErrorContains(t, report.FirstBad, list+"[].role is ")
					} else {
						require.ErrorContains(t, report.FirstBad, list+"[]."+k.Name+" is ")
					}
				default:
					require.Equal(t, want, got)
					require.Equal(t, []string{list + "[]." + k.Name}, report.Unread)
					o.Strict = true
					_, _, report = learned(t, o, with(changed))
					require.ErrorContains(t, report.FirstBad, list+"[]."+k.Name+" is ")
				}
			})
		}
	}
}

// learned is learning of samples that may have nothing to learn.
func learned(t *testing.T, o dataset.Options, line map[string]any) (rows []dataset.Row, margins []float64, report dataset.Report) {
	text, err := json.Marshal(line)
	require.NoError(t, err)
	d := open(t, write(t, "a.jsonl", string(text)), o)
	if o.Pairs > 0 {
		rows, margins, _ = d.Pairs(1, 1)
	} else {
		rows, _ = d.Rows(1, 512, dataset.Padded, 1)
	}
	return rows, margins, d.Report()
}

// TestUnreadVariables: what the text of the chat template does not name is not read, and the report says so.
func TestUnreadVariables(t *testing.T) {
	folder := filepath.Dir(write(t, "chat_template.jinja", "{% if enable_thinking %}T{% endif %}{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	o := dataset.Options{End: -1, Template: template}
	line := map[string]any{"prompt": "q", "response": "a", "tools": []any{"f"}, "chat_template_kwargs": map[string]any{"enable_thinking": true, "enable_thinkin": true}}
	_, _, report := learned(t, o, line)
	require.Equal(t, []string{"chat_template_kwargs.enable_thinkin", "tools"}, report.Unread)
	o.Strict = true
	_, _, report = learned(t, o, line)
	require.ErrorContains(t, report.FirstBad, "chat_template_kwargs.enable_thinkin is true: the chat template has no such name")
	said := map[string]any{"role": "assistant", "content": "a", "messages": 1, "tool_calls": 2}
	_, _, report = learned(t, o, map[string]any{"messages": []any{said}})
	require.ErrorContains(t, report.FirstBad, "messages[].messages is 1", "a variable of the template is no member of a message")
	line = map[string]any{"prompt": "q", "response": "a"}
	for i := range 150 {
		line[fmt.Sprintf("column_%d", i)] = i
	}
	o.Strict = false
	_, _, report = learned(t, o, line)
	require.Len(t, report.Unread, 100)
	require.Contains(t, report.String(), "column_0, ")
	require.Contains(t, report.String(), " and more than these 100")
}

// TestNothingUnread: what would not be read of a sample makes it a bad one.
func TestNothingUnread(t *testing.T) {
	folder := filepath.Dir(write(t, "chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}"))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	for line, want := range map[string]string{
		`{"text":"a","output":"b"}`:                                                                                 "an answer beside text",
		`{"text":"a","system":"b"}`:                                                                                 "system beside text",
		`{"text":"a","history":[["b","c"]]}`:                                                                        "history beside text",
		`{"text":"a","tools":[{}]}`:                                                                                 "tools beside text",
		`{"messages":[{"role":"user","content":"q"}],"response":"b"}`:                                               "an answer beside messages",
		`{"conversations":[{"from":"human","value":"q"}],"output":"b"}`:                                             "an answer beside conversations",
		`{"prompt":"a","input":"c","output":"b"}`:                                                                   "input without the instruction",
		`{"messages":[{"role":"user","content":"q"}],"images":["a.png"]}`:                                           `images is ["a.png"]`,
		`{"conversations":[{"from":"gpt","value":"q","weight":0.5}]}`:                                               "weight is 0.5",
		`{"messages":[{"role":"assistant","content":"q","weight":1,"loss":false}]}`:                                 "contradict",
		`{"text":"a","te\u0078t":"b"}`:                                                                              `an object has the key "text" twice`,
		`{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a","value":"b"}]}`:                   `an object has the key "conversations[].value" twice`,
		`{"text":"a","Text":null}`:                                                                                  "Text is null: this key is not known, and differs from text only in its case",
		`{"text":"a","margin":0.5}`:                                                                                 "its key margin is 0.5: it is for losses",
		`{"conversations":[{"from":"human","value":"q","role":"user"}]}`:                                            `conversations[].role is "user"`,
		`{"conversations":[{"from":"gpt","value":"q","content":"b"}]}`:                                              `conversations[].content is "b"`,
		`{"conversations":[{"role":"assistant","content":"q","value":"b"}]}`:                                        `conversations[].value is "b"`,
		`{"messages":[{"role":"assistant","content":"q","from":"gpt"}]}`:                                            `messages[].from is "gpt"`,
		`{"messages":[{"from":"gpt","value":"q"}]}`:                                                                 `messages[].from is "gpt"`,
		`{"messages":[{"content":"q"}]}`:                                                                            `message 0, {"content":"q"}, has no role`,
		`{"messages":[{"role":"user","content":"q","loss":true},{"role":"assistant","content":"q"}]}`:               `loss is true for the role "user"`,
		`{"messages":[{"role":"tool","content":"q","weight":1}]}`:                                                   `weight is 1 for the role "tool"`,
		`{"conversations":[{"from":"human","value":"q","loss":true}]}`:                                              `loss is true for the role "user"`,
		`{"messages":[{"role":"user","content":"q","images":["a.png"]}]}`:                                           `messages[].images is ["a.png"]`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"q"},{"type":"image_url","image_url":{}}]}]}`: `part 1 of its content is {"type":"image_url","image_url":{}}`,
		`{"messages":[{"role":"user","content":[{"text":"q"},{"image":"a.png"}]}]}`:                                 `part 1 of its content is {"image":"a.png"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"q","image":"a.png"}]}]}`:                     `part 0 of its content is {"type":"text","text":"q","image"`,
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                                `part 0 of its content is {"type":"text"}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"user","content":"q","Content":null}]}`:                 "messages[].Content is null: this key is not known, and differs from content",
		`{"prompt":"a","response":"b","history":[["c"]]}`:                                                           `history has the round ["c"]`,
		`{"prompt":"a","response":"b","history":[["c","d","e"]]}`:                                                   `history has the round ["c","d","e"]`,
		`{"prompt":"a","response":"b","history":[["c",null]]}`:                                                      `history has the round ["c",null]`,
		`{"prompt":"a","response":"b","history":[{"c":"d"}]}`:                                                       `history has the round {"c":"d"}`,
		`{"text":"a","Text":"b"}`:                                                                                   "Text is \"b\": this key is not known, and differs from text only in its case",
		`{"messages":[{"role":"user","content":"q"}],"chat_template_kwargs":{"messages":1}}`:                        "cannot replace",
	} {
		d := open(t, write(t, "a.jsonl", line+"\n"+`{"text":"good"}`), dataset.Options{End: -1, Template: template})
		require.Equal(t, []string{"good"}, texts(t, d), line)
		require.Equal(t, 1, d.Report().Bad, line)
		require.ErrorContains(t, d.Report().FirstBad, want, line)
	}
	d := open(t, write(t, "a.jsonl", `{"prompt":"q","response":"a","tools":[{}]}`), dataset.Options{End: -1})
	_, err = d.Rows(1, 8, dataset.Padded, 1)
	require.ErrorContains(t, err, "need a chat template")

	type row struct {
		Text  string `parquet:"text"`
		Other int    `parquet:"other"`
	}
	table := writeTable(t, "a.parquet", 10, []row{{"good", 1}})
	d = open(t, table, dataset.Options{End: -1})
	require.Equal(t, []string{"other"}, d.Report().Unread)
	_, err = dataset.Open(table, dataset.Options{Tokenizer: bytewise.Tokenizer, Parquet: bytewise.Parquet, Strict: true})
	require.ErrorContains(t, err, "columns other are not read")
	_, err = dataset.Open(writeTable(t, "b.parquet", 10, []struct {
		Text   string   `parquet:"text"`
		Images []string `parquet:"images,list"`
	}{{"good", nil}}), bytewise)
	require.ErrorContains(t, err, "column images: images, sound and video are refused")
}

// TestHarmlessColumns: columns that are not read may have any type, and those of keys without effect are not in the report.
func TestHarmlessColumns(t *testing.T) {
	type row struct {
		Text  string             `parquet:"text"`
		Calls [16]byte           `parquet:"parallel_tool_calls,uuid"`
		Price int64              `parquet:"price,decimal(2:18)"`
		Time  deprecated.Int96   `parquet:"time"`
		Many  map[string]float64 `parquet:"many"`
		Bare  []int32            `parquet:"bare"`
	}
	path := writeTable(t, "a.parquet", 10, []row{{Text: "good", Many: map[string]float64{"a": math.NaN()}, Bare: []int32{1, 2}}})
	d := open(t, path, dataset.Options{End: -1})
	require.Equal(t, []string{"good"}, texts(t, d))
	require.Equal(t, []string{"bare", "many", "price", "time"}, d.Report().Unread)
	only := writeTable(t, "b.parquet", 10, []struct {
		Text  string           `parquet:"text"`
		Calls deprecated.Int96 `parquet:"parallel_tool_calls"`
	}{{Text: "good"}})
	d = open(t, only, dataset.Options{End: -1, Strict: true})
	require.Equal(t, []string{"good"}, texts(t, d))
	require.Empty(t, d.Report().Unread)
}
