package main

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/dataset"
)

// own is the text to train on if none is given: the sources of this program.
//
//go:embed *.go
var own embed.FS

// corpus is a long sequence of tokens from which batches are taken.
type corpus struct {
	tokens  []int32
	file    *dataset.TokenFile // in place of tokens
	vocab   int                // all tokens are below this
	source  string             // description of the source of the tokens
	samples bool               // the tokens are in samples, which are opened later
	left    map[string]int     // files of a folder that are not read, by suffix
}

// loadCorpus reads tokens from a file of bytes, a .bin file of little-endian uint16 token ids, a file
// that -tokenize has written, or a folder, whose texts are concatenated. For an empty path it looks for the Go module around the working
// folder, whose sources and documents it takes, and falls back to this program's own sources.
func loadCorpus(path string) (*corpus, error) {
	if path == "" {
		root, err := moduleRoot()
		if err != nil {
			text, err := readTree(own)
			return byteCorpus(text, "this program's sources"), err
		}
		text, err := readTree(os.DirFS(root))
		return byteCorpus(text, "the text files of "+root), err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	form := dataset.Text
	if !info.IsDir() {
		if form, err = dataset.FormOf(path); err != nil {
			return nil, err
		}
	}
	if form == dataset.Tokens {
		t, err := dataset.OpenTokens(path)
		if err != nil {
			return nil, err
		}
		return &corpus{file: t, vocab: t.Vocab, source: path}, nil
	}
	data, left, err := dataset.ReadText(path)
	if err != nil {
		return nil, err
	}
	if form == dataset.Words {
		return tokenCorpus(data, path)
	}
	c := byteCorpus(data, path)
	c.left = left
	return c, nil
}

// moduleRoot finds the folder with go.mod at or above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = up
	}
}

// readTree concatenates the hand-written text files below a folder in path order. It skips hidden
// files and generated files, which are too repetitive to train a small model on.
func readTree(files fs.FS) ([]byte, error) {
	var text []byte
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasPrefix(name, "zz_") || !slices.Contains([]string{".go", ".md", ".c", ".h", ".txt"}, filepath.Ext(name)) {
			return nil
		}
		b, err := fs.ReadFile(files, path)
		text = append(append(text, b...), '\n')
		return err
	})
	return text, err
}

func byteCorpus(text []byte, source string) *corpus {
	c := &corpus{tokens: make([]int32, len(text)), vocab: 256, source: source}
	for i, b := range text {
		c.tokens[i] = int32(b)
	}
	return c
}

func tokenCorpus(data []byte, source string) (*corpus, error) {
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("%s: %d bytes are no sequence of 16-bit tokens", source, len(data))
	}
	c := &corpus{tokens: make([]int32, len(data)/2), source: source}
	for i := range c.tokens {
		t := int32(binary.LittleEndian.Uint16(data[2*i:]))
		c.tokens[i] = t
		c.vocab = max(c.vocab, int(t)+1)
	}
	return c, nil
}

// unigramLoss returns the cross-entropy, in nats per token, of the best model that knows token
// frequencies only. A model with a lower loss has learned something about the order of tokens.
func (c *corpus) unigramLoss() float64 {
	counts := make(map[int32]int)
	for _, t := range c.tokens {
		counts[t]++
	}
	n := float64(len(c.tokens))
	loss := 0.0
	for _, k := range counts {
		p := float64(k) / n
		loss -= p * math.Log(p)
	}
	return loss
}

// count is the number of tokens.
func (c *corpus) count() int {
	if c.file != nil {
		return c.file.Count
	}
	return len(c.tokens)
}

// window returns n tokens.
func (c *corpus) window(at, n int) ([]int32, error) {
	if c.file != nil {
		return c.file.Window(at, n)
	}
	return c.tokens[at : at+n], nil
}

// Close closes the file of tokens.
func (c *corpus) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// batch takes the random windows from a number to another one of a step, each of length+1 tokens: the inputs are a window without its last token,
// the labels the same window without its first. The windows depend on seed and step only, so that a
// resumed run sees the same data as an uninterrupted one.
func (c *corpus) batch(seed uint64, step, from, to, length int) (inputs, labels []int32, err error) {
	total := c.count()
	if total < length+2 {
		return nil, nil, fmt.Errorf("%s has %d tokens, a sequence needs %d", c.source, total, length+2)
	}
	rng := rand.New(rand.NewPCG(seed, uint64(step)))
	for i := range to {
		at := rng.IntN(total - length - 1)
		if i < from {
			continue
		}
		window, err := c.window(at, length+1)
		if err != nil {
			return nil, nil, err
		}
		inputs = append(inputs, window[:length]...)
		labels = append(labels, window[1:]...)
	}
	return inputs, labels, nil
}
