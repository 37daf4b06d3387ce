package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goascend/cann/examples/dataset"
)

// tokensSuffix ends the names of files of tokens: sixteen bytes, which are tokensMagic, the size of the
// vocabulary and zero, and then 32-bit token ids, all little-endian.
const (
	tokensSuffix = ".tokens"
	tokensMagic  = "TOKENS32"
	tokensHeader = 16
)

// tokenFile is such a file, of which windows are read. It is not mapped into memory: a file that
// somebody truncates then gives an error and does not end the process.
type tokenFile struct {
	file  *os.File
	vocab int
	count int
}

func openTokens(path string) (t *tokenFile, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
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
	t = &tokenFile{file: f, vocab: int(binary.LittleEndian.Uint32(header[8:])), count: int(info.Size()-tokensHeader) / 4}
	if (info.Size()-tokensHeader)%4 != 0 || t.count == 0 || t.vocab == 0 {
		return nil, fmt.Errorf("%d bytes of tokens of a vocabulary of %d are impossible", info.Size()-tokensHeader, t.vocab)
	}
	return t, nil
}

// window reads n tokens.
func (t *tokenFile) window(at, n int) ([]int32, error) {
	raw := make([]byte, 4*n)
	if _, err := t.file.ReadAt(raw, tokensHeader+4*int64(at)); err != nil {
		return nil, fmt.Errorf("%s: %w", t.file.Name(), err)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return ids, nil
}

// tokenize writes the tokens of the samples of -data, one sample after the other in the order of the
// seed, to a file for -data. The file appears when it is complete.
func (o options) tokenize(ctx context.Context, out io.Writer) (err error) {
	from := o.data
	if from == "" {
		if from, err = moduleRoot(); err != nil {
			return err
		}
	}
	data, err := o.openSamples(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	f, err := os.CreateTemp(filepath.Dir(o.tokens), ".tokenize-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	count, vocab, err := writeTokens(ctx, f, data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), o.tokens); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d tokens below %d in %s; %v\n", count, vocab, o.tokens, data.Report())
	return err
}

func writeTokens(ctx context.Context, f *os.File, data *dataset.Dataset) (count, vocab int, err error) {
	w := bufio.NewWriterSize(f, 1<<20)
	header := make([]byte, tokensHeader)
	_, err = w.Write(header)
	for err == nil {
		var ids []int32
		if ids, err = data.Tokens(); err != nil {
			break
		}
		if err = ctx.Err(); err != nil {
			break
		}
		raw := make([]byte, 0, 4*len(ids))
		for _, id := range ids {
			vocab = max(vocab, int(id)+1)
			raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
		}
		count += len(ids)
		_, err = w.Write(raw)
	}
	if !errors.Is(err, io.EOF) {
		return count, vocab, err
	}
	if err := w.Flush(); err != nil {
		return count, vocab, err
	}
	copy(header, tokensMagic)
	binary.LittleEndian.PutUint32(header[8:], uint32(vocab))
	if _, err := f.WriteAt(header, 0); err != nil {
		return count, vocab, err
	}
	return count, vocab, errors.Join(f.Chmod(0o644), f.Sync())
}
