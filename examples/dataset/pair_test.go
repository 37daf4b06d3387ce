package dataset_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/dataset"
)

// plain is a template that marks what an answer is.
const plain = `{% for m in messages %}{% if m.role == "assistant" %}A{% generation %}{{ m.content }}.{% endgeneration %}{% else %}{{ m.role[0] }}{{ m.content }}{% endif %}{% endfor %}`

func plainTemplate(t *testing.T) *chat.Template {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "chat_template.jinja"), []byte(plain), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte("{}"), 0o600))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	return template
}

// pairs reads the first pair of a file with one line: the texts of both sequences, and of what is learnt of each.
func pairs(t *testing.T, line string, o dataset.Options) (texts, learnt [2]string, margin float64, err error) {
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	o.Tokenizer, o.End = dataset.Bytes{}, -1
	d, err := dataset.Open(path, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	rows, margins, err := d.Pairs(1, 4)
	if err != nil {
		return texts, learnt, 0, err
	}
	for i, r := range rows {
		require.Zero(t, len(r.Inputs)%4)
		require.Len(t, r.Inputs, len(rows[0].Inputs))
		for at, id := range r.Inputs[:r.Ends[0]] {
			texts[i] += string(rune(id))
			if l := r.Labels[at]; l >= 0 {
				learnt[i] += string(rune(l))
			}
		}
	}
	return texts, learnt, margins[0], nil
}

// TestPairForms reads the forms of TRL, ms-swift and LLaMA-Factory: what both sequences have in common is not learnt.
func TestPairForms(t *testing.T) {
	template := plainTemplate(t)
	want := [2]string{"uqAyes.", "uqAno."}
	long := [2]string{"uaAb.uqAyes.", "uaAb.uqAno."}
	for _, c := range []struct {
		line string
		want [2]string
	}{
		{`{"prompt": "q", "chosen": "yes", "rejected": "no"}`, want},
		{`{"query": "q", "response": "yes", "rejected_response": "no"}`, want},
		{`{"instruction": "q", "chosen": "yes", "rejected": "no"}`, want},
		{`{"prompt": [{"role":"user","content":"q"}], "chosen": [{"role":"assistant","content":"yes"}], "rejected": [{"role":"assistant","content":"no"}]}`, want},
		{`{"prompt": "q", "chosen": [{"role":"assistant","content":"yes"}], "rejected": [{"role":"assistant","content":"no"}]}`, want},
		{`{"chosen": [{"role":"user","content":"q"},{"role":"assistant","content":"yes"}], "rejected": [{"role":"user","content":"q"},{"role":"assistant","content":"no"}]}`, want},
		{`{"messages": [{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"q"},{"role":"assistant","content":"yes"}], "rejected_response": "no"}`, long},
		{`{"messages": [{"role":"user","content":"q"},{"role":"assistant","content":"yes"}], "rejected_messages": [{"role":"user","content":"q"},{"role":"assistant","content":"no"}]}`, want},
		{`{"conversations": [{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"human","value":"q"}], "chosen": {"from":"gpt","value":"yes"}, "rejected": {"from":"gpt","value":"no"}}`, long},
		{`{"query": "q", "history": [["a","b"]], "response": "yes", "rejected_response": "no", "margin": 0.5}`, long},
	} {
		texts, learnt, _, err := pairs(t, c.line, dataset.Options{Template: template, Pairs: 64, Scored: true})
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, texts, c.line)
		require.Equal(t, [2]string{"\x00", "\x00"}, learnt, "the last token has a label")
		_, learnt, _, err = pairs(t, c.line, dataset.Options{Template: template, Pairs: 64})
		require.NoError(t, err, c.line)
		require.Equal(t, [2]string{"yes.", "no."}, learnt, c.line)
	}
	texts, learnt, margin, err := pairs(t, `{"prompt": "q", "chosen": "yes", "rejected": "no", "margin": 0.5}`, dataset.Options{Pairs: 64})
	require.NoError(t, err)
	require.Equal(t, [2]string{"qye", "qn"}, texts, "the last token is a label")
	require.Equal(t, [2]string{"yes", "no"}, learnt)
	require.InDelta(t, 0.5, margin, 0)
}

func TestBadPairs(t *testing.T) {
	template := plainTemplate(t)
	for line, text := range map[string]string{
		`{"prompt": "q", "chosen": "yes"}`:                                                                                 "it needs chosen and rejected",
		`{"prompt": "q", "chosen": "yes", "rejected": "no", "rejected_response": "x"}`:                                     "it needs chosen and rejected",
		`{"prompt": "q", "response": "z", "chosen": "yes", "rejected": "no"}`:                                              "it has response beside chosen and rejected",
		`{"messages": [{"role":"user","content":"q"}], "output": "z", "chosen": "yes", "rejected": "no"}`:                  "it has output beside chosen and rejected",
		`{"prompt": "q", "response": "yes"}`:                                                                               "it needs chosen and rejected",
		`{"prompt": "q", "chosen": 4, "rejected": "no"}`:                                                                   "chosen: it is neither a text nor messages",
		`{"prompt": "q", "chosen": "no", "rejected": "no"}`:                                                                "are the same",
		`{"messages": [{"role":"user","content":"q"}], "rejected_response": "no"}`:                                         "is not of the assistant",
		`{"prompt": [{"role":"user","content":"q"}], "messages": [], "chosen": "a", "rejected": "b"}`:                      "not clear which is the prompt",
		`{"prompt": "q", "chosen": "yes", "rejected": "no", "margin": "much"}`:                                             "margin",
		`{"prompt": "q", "chosen": "a long answer, longer than 64 tokens, which is too long for a row", "rejected": "no"}`: "its chosen sequence has",
	} {
		_, _, _, err := pairs(t, line, dataset.Options{Template: template, Pairs: 64})
		require.ErrorContains(t, err, text, line)
	}
	_, _, _, err := pairs(t, `{"prompt": "q", "chosen": "yes", "rejected": "no"}`, dataset.Options{Template: template})
	require.ErrorContains(t, err, "with Options.Pairs")
}
