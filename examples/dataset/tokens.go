package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A file of tokens has sixteen bytes, which are tokensMagic, the size of the vocabulary and zero, and then 32-bit token ids,
// all little-endian.
const (
	tokensMagic  = "TOKENS32"
	tokensHeader = 16
)

// TokensHeader is the beginning of a file of tokens below vocab.
func TokensHeader(vocab int) []byte {
	header := append([]byte(tokensMagic), make([]byte, tokensHeader-len(tokensMagic))...)
	binary.LittleEndian.PutUint32(header[len(tokensMagic):], uint32(vocab))
	return header
}

// TokenFile is a file of tokens, of which windows are read. It is not mapped into memory: a file that
// somebody truncates then gives an error and does not end the process.
type TokenFile struct {
	Vocab int // all tokens are below it
	Count int

	file *os.File
	path string
}

// OpenTokens opens a file that begins with TokensHeader and has 32-bit token ids, all little-endian. A compressed one is unpacked into
// a temporary file.
func OpenTokens(path string) (t *TokenFile, err error) {
	f, _, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), closePlain(f, path))
		}
	}()
	var header [tokensHeader]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:8]) != tokensMagic {
		return nil, errors.Join(errors.New("it is not a file that -tokenize has written"), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	t = &TokenFile{file: f, path: path, Vocab: int(binary.LittleEndian.Uint32(header[8:])), Count: int(info.Size()-tokensHeader) / 4}
	if (info.Size()-tokensHeader)%4 != 0 || t.Count == 0 || t.Vocab == 0 {
		return nil, fmt.Errorf("%d bytes of tokens of a vocabulary of %d are impossible", info.Size()-tokensHeader, t.Vocab)
	}
	return t, nil
}

// Window reads n tokens.
func (t *TokenFile) Window(at, n int) ([]int32, error) {
	raw := make([]byte, 4*n)
	if _, err := t.file.ReadAt(raw, tokensHeader+4*int64(at)); err != nil {
		return nil, fmt.Errorf("%s: %w", t.path, err)
	}
	return ids(raw, 4), nil
}

// Close closes the file.
func (t *TokenFile) Close() error { return closePlain(t.file, t.path) }

// ids are the tokens of so many bytes each.
func ids(raw []byte, size int) []int32 {
	list := make([]int32, len(raw)/size)
	for i := range list {
		if size == 2 {
			list[i] = int32(binary.LittleEndian.Uint16(raw[2*i:]))
		} else {
			list[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return list
}
