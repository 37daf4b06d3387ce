package tokenizer

import (
	"fmt"
	"strings"

	"github.com/dlclark/regexp2"
	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is cut into words.
type normalizer func(string) string

// normalizerFile is the entry "normalizer" of tokenizer.json.
type normalizerFile struct {
	Type        string            `json:"type"`
	Normalizers []*normalizerFile `json:"normalizers"`
	Pattern     pattern           `json:"pattern"`
	Content     string            `json:"content"`
	Prepend     string            `json:"prepend"`
}

func (n *normalizerFile) build() (normalizer, error) {
	if n == nil {
		return func(s string) string { return s }, nil
	}
	switch n.Type {
	case "NFC":
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Lowercase":
		return strings.ToLower, nil
	case "Prepend":
		return func(s string) string {
			if s == "" {
				return s
			}
			return n.Prepend + s
		}, nil
	case "Replace":
		expression, err := n.Pattern.expression()
		if err != nil {
			return nil, err
		}
		re, err := regexp2.Compile(expression, regexp2.None)
		if err != nil {
			return nil, fmt.Errorf("the pattern of a Replace: %w", err)
		}
		literal := strings.ReplaceAll(n.Content, "$", "$$")
		return func(s string) string {
			replaced, err := re.Replace(s, literal, -1, -1)
			if err != nil {
				return s // only a time limit can fail, and none is set
			}
			return replaced
		}, nil
	case "Sequence":
		stages := make([]normalizer, len(n.Normalizers))
		for i, f := range n.Normalizers {
			var err error
			if stages[i], err = f.build(); err != nil {
				return nil, err
			}
		}
		return func(s string) string {
			for _, stage := range stages {
				s = stage(s)
			}
			return s
		}, nil
	}
	return nil, fmt.Errorf("normalizer %q is not supported (NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace and Sequence are)", n.Type)
}
