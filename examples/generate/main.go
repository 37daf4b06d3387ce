package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/ops"
)

const about = `generate continues a prompt with a model of the Qwen3 family. Without -model it first trains a small
model of bytes on its own sources. Models with a tokenizer.json, and models of bytes, read and write text;
other models read and write token ids.`

var samples = []string{
	"go run -tags emu ./examples/generate -prompt package -n 300",
	"go run -tags emu ./examples/generate -type qwen3_next -temperature 0.8 -top-k 40 -top-p 0.95 -seed 7",
	"go run -tags emu ./examples/generate -model Qwen3-0.6B -chat -prompt Hello",
	"go run -tags emu ./examples/generate -model Qwen3-0.6B -adapter mine -prompt Hello",
	"go run -tags emu ./examples/generate -model Qwen3-0.6B -ids 785,3974,13876",
}

// options are the flags.
type options struct {
	source weights.Source

	prompt, system string
	chat           bool
	ids            []int32 // the prompt as token ids instead of text
	tokens, device int
	graph          bool
	sampling       sampling.Options
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "generate [flags]", about, samples...)
	o.source.Steps = 200
	o.source.Flags(f)
	o.source.CacheFlag(f)
	f.IntVar(&o.device, "device", 0, "device to run on")
	f.Group("The text")
	f.StringVar(&o.prompt, "prompt", "func ", "`text` to continue")
	f.BoolVar(&o.chat, "chat", false, "treat the prompt as a user's message, and render it with the chat template of the model's folder")
	f.StringVar(&o.system, "system", "", "`text` of the system message before the user's, with -chat")
	f.Func("ids", "prompt as token `ids`, separated by commas", func(text string) (err error) {
		o.ids, err = parseIDs(text)
		return err
	})
	f.IntVar(&o.tokens, "n", 200, "tokens to generate")
	f.BoolVar(&o.graph, "graph", false, "capture the step of a token as a graph and replay it, which saves the host the launches")
	f.Group("Sampling")
	f.Float64Var(&o.sampling.Temperature, "temperature", 0, "sampling temperature; 0 always takes the likeliest token")
	f.IntVar(&o.sampling.TopK, "top-k", 0, "sample among so many likeliest `tokens`; 0 means all")
	f.Float64Var(&o.sampling.TopP, "top-p", 1, "sample among the likeliest tokens whose probabilities sum to this `probability`")
	f.Uint64Var(&o.sampling.Seed, "seed", 1, "seed of sampling, and of the model that is trained without -model")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := o.source.Check(f); err != nil {
		return o, err
	}
	switch {
	case o.tokens < 1:
		return o, fmt.Errorf("-n %d; it must be positive", o.tokens)
	case o.chat && o.ids != nil:
		return o, errors.New("-chat takes a -prompt, not -ids")
	}
	if err := o.sampling.Validate(); err != nil {
		return o, fmt.Errorf("-%w", err)
	}
	if err := o.checkIdle(f); err != nil {
		return o, err
	}
	o.source.Seed = o.sampling.Seed
	var err error
	o.source.Text, err = sources()
	return o, err
}

// checkIdle refuses flags that would do nothing.
func (o *options) checkIdle(f *command.Flags) (err error) {
	if !o.chat {
		err = f.Idle("-chat", "system")
	}
	if o.ids != nil {
		err = errors.Join(err, f.Idle("a text, without -ids", "prompt"))
	}
	if o.sampling.Temperature == 0 {
		err = errors.Join(err, f.Idle("-temperature", "top-k", "top-p"))
	}
	return err
}

// own is the text that a model is trained on if none is given: the sources of this program.
//
//go:embed *.go
var own embed.FS

func sources() (text []byte, err error) {
	names, err := fs.Glob(own, "*.go")
	for _, name := range names {
		b, err := fs.ReadFile(own, name)
		if err != nil {
			return nil, err
		}
		text = append(text, b...)
	}
	return text, err
}

func parseIDs(text string) ([]int32, error) {
	var ids []int32
	for _, field := range strings.Split(text, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the program
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes the generated text to out and progress to report.
func run(ctx context.Context, o options, out, report io.Writer) (err error) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer job.Close(&err, rt)
	dev, err := rt.Device(o.device)
	if err != nil {
		return err
	}
	defer job.Close(&err, dev)
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer job.Close(&err, st)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer job.Close(&err, reg)
	m, err := o.source.Model(ctx, st, reg, report)
	if err != nil {
		return err
	}
	defer job.Close(&err, m)
	ends, err := o.source.Ends()
	if err != nil {
		return err
	}
	said, err := newSpeech(o, m.Config.VocabSize, out)
	if err != nil {
		return err
	}
	return generate(ctx, m, o, said, ends, report)
}
