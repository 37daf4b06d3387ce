package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/goascend/cann/examples/budget"
)

// charsMap is the table of characters of a model of SentencePiece: what some sequences of characters are written as. It is a double-array
// trie of the sequences, whose values are where in the texts behind it the replacement stands.
// (Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure", 1989.)
type charsMap struct {
	units []uint32
	texts string // each ends with a zero
}

func newCharsMap(table []byte) (*charsMap, error) {
	if len(table) < 4 {
		return nil, fmt.Errorf("a table of characters has %d bytes", len(table))
	}
	size, rest := int(binary.LittleEndian.Uint32(table)), table[4:]
	if size%4 != 0 || size > len(rest) || size == 0 {
		return nil, fmt.Errorf("a table of characters has %d bytes for %d of its trie", len(rest), size)
	}
	c := &charsMap{texts: string(rest[size:])}
	for ; size > 0; size, rest = size-4, rest[4:] {
		c.units = append(c.units, binary.LittleEndian.Uint32(rest))
	}
	return c, nil
}

// unit is a node of the trie, or none if a made-up table has no such place.
func (c *charsMap) unit(at uint32) (uint32, bool) {
	if int(at) >= len(c.units) {
		return 0, false
	}
	return c.units[at], true
}

// find gives the replacement of the shortest or of the longest sequence that a text begins with, and its length in bytes, which is zero for none.
func (c *charsMap) find(text string, longest bool) (replacement string, n int) {
	unit, ok := c.unit(0)
	if !ok {
		return "", 0
	}
	at := offset(unit)
	for i := range len(text) {
		b := uint32(text[i])
		if b == 0 {
			break
		}
		if unit, ok = c.unit(at ^ b); !ok || unit&(1<<31|0xFF) != b {
			break
		}
		at ^= b ^ offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		value, ok := c.unit(at)
		if start := int(value & (1<<31 - 1)); ok && start <= len(c.texts) {
			replacement, _, _ = strings.Cut(c.texts[start:], "\x00")
			n = i + 1
		}
		if !longest {
			break
		}
	}
	return replacement, n
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// graphemes is the normaliser Precompiled of tokenizers: of a short cluster of characters the shortest sequence that it begins with is looked up, and
// replaces the whole of it; otherwise each character for itself.
func (c *charsMap) graphemes(text string, b *budget.Budget) (string, error) {
	var out strings.Builder
	for rest, state := text, -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if len(cluster) < 6 {
			if to, n := c.find(cluster, false); n > 0 {
				out.WriteString(to)
				continue
			}
		}
		for at, r := range cluster {
			one := cluster[at:][:utf8.RuneLen(r)]
			if to, n := c.find(one, false); n > 0 {
				one = to
			}
			out.WriteString(one)
		}
		if err := c.bound(out.Len(), len(text)); err != nil {
			return "", err
		}
	}
	return out.String(), b.Step((len(text) + out.Len()) / 8)
}

func (c *charsMap) bound(n, from int) error {
	return budget.Size("the text that a table of characters makes", n, mostGrowth*mostGrowth*from+longestContent, "bytes")
}
