package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/weights"
)

// tokenizerFolder is the folder with the tokenizer of the model, "" if it has none.
func (o options) tokenizerFolder() string {
	if !o.folder() {
		return ""
	}
	if _, err := os.Stat(filepath.Join(o.model, "tokenizer.json")); err != nil && !hub.HasPieces(o.model) {
		return ""
	}
	return o.model
}

// hasSamples reports whether the data are samples, rather than one long sequence of tokens: JSON,
// rows of a Parquet file, or text for a model with a tokenizer.
func (o options) hasSamples() (bool, error) {
	if o.data == "" {
		return o.tokenizerFolder() != "", nil
	}
	samples, err := dataset.HasSamples(o.data)
	if err != nil || samples || o.tokenizerFolder() == "" {
		return samples, err
	}
	info, err := os.Stat(o.data)
	if err != nil || info.IsDir() {
		return true, err
	}
	form, err := dataset.FormOf(o.data)
	return form == dataset.Text, err
}

// loadText reads the text, unless it consists of samples, which each rank reads as it needs them.
func (o options) loadText() (*corpus, error) {
	samples, err := o.hasSamples()
	if err != nil {
		return nil, err
	}
	if o.compares() && (o.data == "" || !samples) {
		return nil, fmt.Errorf("-loss %s needs -data with samples that have a chosen and a rejected answer; -data %q has a text", o.loss, o.data)
	}
	if !samples {
		return loadCorpus(o.data)
	}
	text := &corpus{source: o.data, samples: true}
	if o.tokenizerFolder() == "" {
		text.vocab = 256
	}
	if o.data == "" {
		text.source, err = moduleRoot()
	}
	return text, err
}

// openSamples opens the samples with the tokenizer of the model; without one, bytes are tokens.
func (o options) openSamples(path string) (*dataset.Dataset, error) {
	d := dataset.Options{Tokenizer: dataset.Bytes{}, End: -1, Seed: o.seed, Strict: o.strict, Parquet: openParquet}
	if o.compares() {
		d.Pairs, d.Scored = o.seq, o.loss == reward
	}
	if folder := o.tokenizerFolder(); folder != "" {
		tok, err := tokenizer.Load(folder)
		if err == nil {
			err = hub.AsWritten(folder)
		}
		if err != nil {
			return nil, err
		}
		d.Tokenizer = tok
		if d.Template, err = chat.Load(folder); err != nil && !errors.Is(err, chat.ErrNoTemplate) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		ends, err := weights.Source{Folder: folder}.Ends()
		if err != nil {
			return nil, err
		}
		if len(ends) > 0 {
			d.End = ends[0]
		}
	}
	return dataset.Open(path, d)
}

// seek goes to where the samples of a checkpoint's next step begin.
func (t *trainer) seek(set *checkpoint.Set) error {
	text := set.About().Data["position"]
	if t.data == nil || text == "" {
		return nil
	}
	var p dataset.Position
	if err := p.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	return t.data.Seek(p)
}

// sampled makes a batch of the next samples, this rank's rows of it.
func (t *trainer) sampled(data *dataset.Dataset) (model.Batch, error) {
	o := t.options
	kind, unit := dataset.Padded, 2*max(o.layout.CP, 1)*max(o.layout.TP, 1)
	if o.pack {
		kind = dataset.Packed
	}
	rows, err := data.Rows(o.batch, o.seq, kind, unit)
	if err != nil {
		return model.Batch{}, err
	}
	targets := 0
	for _, r := range rows {
		for _, l := range r.Labels {
			if l != dataset.Ignored {
				targets++
			}
		}
	}
	n := len(rows) / t.ranks.Parts
	b := model.Batch{Size: n, Length: len(rows[0].Inputs), Targets: targets}
	if o.pack {
		b.Size, b.Length, b.CuSeqLens = 1, n*b.Length, []int64{0}
	}
	for i, r := range rows[t.ranks.Index*n:][:n] {
		b.Inputs, b.Labels = append(b.Inputs, r.Inputs...), append(b.Labels, r.Labels...)
		if !o.pack {
			b.Lengths = append(b.Lengths, int64(slices.Max(r.Ends)))
			continue
		}
		for _, end := range r.Ends {
			b.CuSeqLens = append(b.CuSeqLens, int64(i*len(r.Inputs)+end))
		}
	}
	return b, nil
}

// windows makes a batch of random windows of the text, this rank's rows of it.
func (t *trainer) windows(step int) (model.Batch, error) {
	o := t.options
	rows := o.batch / t.ranks.Parts
	in, labels, err := t.text.batch(o.seed, step, t.ranks.Index*rows, (t.ranks.Index+1)*rows, o.seq)
	return model.Batch{Size: rows, Length: o.seq, Inputs: in, Labels: labels, Targets: o.batch * o.seq}, err
}
