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

// tokensSuffix ends the names of files of tokens, see dataset.OpenTokens.
const tokensSuffix = ".tokens"

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
	_, err = w.Write(dataset.TokensHeader(0))
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
	if _, err := f.WriteAt(dataset.TokensHeader(vocab), 0); err != nil {
		return count, vocab, err
	}
	return count, vocab, errors.Join(f.Chmod(0o644), f.Sync())
}
