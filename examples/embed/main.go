package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/ops"
)

const about = `embed writes the embeddings of texts, one line of JSON for each, or sorts texts by their similarity to a
query. The texts are the arguments, or the lines of standard input. Without -model it first trains a small
model of bytes on its own source.`

var samples = []string{
	"go run -tags emu ./examples/embed one two",
	"go run -tags emu ./examples/embed -query three one two",
	"go run -tags emu ./examples/embed -model Qwen3-Embedding-0.6B -dtype bf16 -quant w8a8 -query hello",
}

// options are the flags.
type options struct {
	source weights.Source
	query  string
	device int
	tensor int      // devices
	texts  []string // nil is the standard input
}

//go:embed main.go
var own []byte

func parseFlags(args []string, out io.Writer) (options, error) {
	o := options{source: weights.Source{Steps: 100, Seed: 1, Text: own}}
	f := command.New(out, "embed [flags] [text ...]", about, samples...)
	f.Operands = true
	o.source.Flags(f)
	f.IntVar(&o.device, "device", 0, "device to run on")
	f.IntVar(&o.tensor, "tp", 1, "`devices` that share each layer, from -device on (tensor parallelism)")
	f.StringVar(&o.query, "query", "", "`text` to compare with: print the texts and their cosine similarity to it, the most similar first")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.texts = f.Args()
	return o, o.source.Check(f)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the program
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctx, o, os.Stdin, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run writes the vectors of the texts, or their order, to out, and its progress to report.
func run(ctx context.Context, o options, in io.Reader, out, report io.Writer) (err error) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	load := func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
		source := o.source
		source.Parallel = par
		return source.Model(ctx, st, reg, report)
	}
	options := engine.Options{Tensor: o.tensor}
	if options.Pool, err = hub.ReadPooling(o.source.Folder); err != nil {
		return err
	}
	device, err := options.Join(ctx, o.device)
	if err != nil {
		return err
	}
	if g := options.Group; g != nil && g.Rank() > 0 {
		return engine.Follow(ctx, rt, device, load, options)
	}
	e, err := engine.Open(ctx, rt, device, load, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	l, err := language.Load(o.source.Folder, e.Vocab())
	if err != nil {
		return err
	}
	if len(o.texts) == 0 {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			o.texts = append(o.texts, lines.Text())
		}
		if lines.Err() != nil {
			return lines.Err()
		}
	}
	embed := func(text string) ([]float32, error) {
		ids, err := l.Encode(text, e.MaxLength())
		if err != nil {
			return nil, err
		}
		v, err := e.Embed(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("%.40q: %w", text, err)
		}
		return v, nil
	}
	if o.query != "" {
		return order(o, embed, out)
	}
	lines := json.NewEncoder(out)
	for _, text := range o.texts {
		v, err := embed(text)
		if err != nil {
			return err
		}
		if err := lines.Encode(struct {
			Text      string    `json:"text"`
			Embedding []float32 `json:"embedding"`
		}{text, v}); err != nil {
			return err
		}
	}
	return nil
}

// order writes the texts with their cosines to the query, the nearest first.
func order(o options, embed func(string) ([]float32, error), out io.Writer) error {
	query, err := embed(o.query)
	if err != nil {
		return err
	}
	type scored struct {
		text   string
		cosine float64
	}
	var all []scored
	for _, text := range o.texts {
		v, err := embed(text)
		if err != nil {
			return err
		}
		s := scored{text: text}
		for i := range v {
			s.cosine += float64(v[i]) * float64(query[i]) // both have length one
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.cosine, a.cosine) })
	for _, s := range all {
		if _, err := fmt.Fprintf(out, "%.4f\t%s\n", s.cosine, s.text); err != nil {
			return err
		}
	}
	return nil
}
