package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/goascend/cann/examples/budget"
)

// normalizer changes a text before it is cut into words.
type normalizer func(text string, b *budget.Budget) (string, error)

// normalizerFile is the entry "normalizer" of tokenizer.json.
type normalizerFile struct {
	Type        string               `json:"type"`
	Normalizers few[*normalizerFile] `json:"normalizers"`
	Pattern     pattern              `json:"pattern"`
	Content     string               `json:"content"`
	Prepend     string               `json:"prepend"`

	CleanText    *bool  `json:"clean_text"` // of BERT's
	ChineseChars *bool  `json:"handle_chinese_chars"`
	StripAccents *bool  `json:"strip_accents"`
	Lowercase    *bool  `json:"lowercase"`
	StripLeft    *bool  `json:"strip_left"` // of Strip
	StripRight   *bool  `json:"strip_right"`
	Table        []byte `json:"precompiled_charsmap"` // in base64
}

// plainly is a normaliser that makes a text at most some times as long.
func plainly(f func(text string) string) normalizer {
	return func(text string, b *budget.Budget) (string, error) { return f(text), b.Step(len(text) / 16) }
}

// stages is the number of normalisers in one, itself included.
func (n *normalizerFile) stages() int {
	if n == nil {
		return 0
	}
	all := 1
	for _, inner := range n.Normalizers {
		all += inner.stages()
	}
	return all
}

func (n *normalizerFile) build() (normalizer, error) {
	if n == nil {
		return func(text string, _ *budget.Budget) (string, error) { return text, nil }, nil
	}
	switch n.Type {
	case "NFC":
		return plainly(norm.NFC.String), nil
	case "NFD":
		return plainly(norm.NFD.String), nil
	case "NFKC":
		return plainly(norm.NFKC.String), nil
	case "NFKD":
		return plainly(norm.NFKD.String), nil
	case "Lowercase":
		return plainly(lower), nil
	case "BertNormalizer":
		return n.bert(), nil
	case "StripAccents":
		return plainly(func(text string) string {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) {
					return -1
				}
				return r
			}, text)
		}), nil
	case "Nmt":
		return mapped(nmt), nil
	case "Strip":
		left, right := isTrue(n.StripLeft), isTrue(n.StripRight)
		return plainly(func(text string) string {
			if left {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
			if right {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text
		}), nil
	case "Precompiled":
		table, err := newCharsMap(n.Table)
		if err != nil {
			return nil, err
		}
		return table.graphemes, nil
	case "Prepend":
		if err := budget.Size("the text of a Prepend", len(n.Prepend), longestContent, "bytes"); err != nil {
			return nil, err
		}
		return plainly(func(text string) string {
			if text == "" {
				return text
			}
			return n.Prepend + text
		}), nil
	case "Replace":
		x, err := n.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("a Replace: %w", err)
		}
		return func(text string, b *budget.Budget) (string, error) { return replace(x, text, n.Content, b) }, nil
	case "Sequence":
		stages := make([]normalizer, len(n.Normalizers))
		for i, f := range n.Normalizers {
			var err error
			if stages[i], err = f.build(); err != nil {
				return nil, err
			}
		}
		return func(text string, b *budget.Budget) (string, error) {
			var err error
			for _, stage := range stages {
				if text, err = stage(text, b); err != nil {
					break
				}
			}
			return text, err
		}, nil
	}
	return nil, fmt.Errorf("normalizer %.100q is not supported (NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, Precompiled, BertNormalizer, Prepend, Replace and Sequence are)", n.Type)
}

// replaces reports whether there is a Replace.
func (n *normalizerFile) replaces() bool {
	return n != nil && (n.Type == "Replace" || slices.ContainsFunc(n.Normalizers, (*normalizerFile).replaces))
}

// mostGrowth is how many times as long a Replace makes a text, beside longestContent bytes.
const mostGrowth = 4

// replace puts a content in the place of each match.
func replace(x expression, text, content string, b *budget.Budget) (string, error) {
	if err := b.Step(len(text) / 16); err != nil {
		return "", err
	}
	var out strings.Builder
	end := 0
	err := x.each(text, b, func(from, to int) error {
		out.WriteString(text[end:from])
		out.WriteString(content)
		end = to
		if err := b.Step(1 + len(content)/16); err != nil {
			return err
		}
		return budget.Size("the text that a Replace makes", out.Len(), mostGrowth*len(text)+longestContent, "bytes")
	})
	out.WriteString(text[end:])
	return out.String(), err
}
