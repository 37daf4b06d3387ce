package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/weights"
)

const about = `serve answers requests in the form of OpenAI's interface with a language model, or with a model
for embeddings or for reranking. Without -model it first trains a small model of bytes on its own
sources. Environment variables set flags, too: SERVE_MAX_TOKENS sets -max-tokens, and so on.`

var samples = []string{
	"go run -tags emu ./examples/serve",
	"go run -tags emu ./examples/serve -type qwen3_next -listen 127.0.0.1:0",
	"go run -tags emu ./examples/serve -model Qwen3-0.6B -dtype bf16 -listen :8080 -keys keys.txt",
	"go run ./examples/launch -n 2 -- build/serve -model Qwen3-0.6B -dtype bf16 -tp 2",
}

// options are the flags.
type options struct {
	source            weights.Source
	name              string
	devices           []int // the first one of each replica
	listen, cert, key string
	keys              string
	monitor           string
	traceCalls        bool
	trace             string
	adapterSlots      int // for adapters
	judge, task       string
	drain, health     time.Duration
	engine            engine.Options
	api               api.Config
}

// environment is the prefix of the variables that set flags.
const environment = "SERVE_"

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "serve [flags]", about, samples...)
	o.source.Steps = 100
	o.source.Flags(f)
	o.source.CacheFlag(f)
	f.StringVar(&o.api.Adapters, "adapters", "", "`folder` whose subfolders are adapters in PEFT's form; the server loads all of them, and clients can load others from there")
	f.IntVar(&o.engine.AdapterRank, "adapter-rank", 64, "largest `rank` of an adapter, with -adapters")
	f.IntVar(&o.adapterSlots, "adapter-slots", 4, "number of `adapters` that can be loaded at the same time, with -adapters")
	f.StringVar(&o.name, "name", "", "`name` of the model in requests (default: the name of the folder, or small)")
	f.StringVar(&o.judge, "judge", "", "`tokens` for no and yes, such as no,yes: serve scores of documents from a language model that answers whether they meet a query, as Qwen3-Reranker does")
	f.StringVar(&o.task, "judge-task", language.JudgeTask, "`text` that says what documents are searched for, with -judge")
	o.devices = []int{0}
	f.Func("device", "`device` to run on, or several separated by commas: each device has a replica of the model (default 0)", func(text string) (err error) {
		o.devices, err = parseDevices(text)
		return err
	})
	f.IntVar(&o.engine.Tensor, "tp", 1, "`devices` that share each layer, from -device on (tensor parallelism)")
	f.Group("The interface")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&o.cert, "tls-cert", "", "`file` with the certificate, for TLS")
	f.StringVar(&o.key, "tls-key", "", "`file` with the certificate's key")
	f.StringVar(&o.keys, "keys", "", "`file` with a bearer token in each line; a request must have one of them")
	f.StringVar(&o.monitor, "monitor", "", "`address` of a listener of its own for /healthz, /readyz, /metrics and profiles, without keys (default: they are at -listen, with keys)")
	f.BoolVar(&o.api.Profiles, "pprof", false, "serve profiles at /debug/pprof")
	f.StringVar(&o.trace, "trace", "", "`URL` of an OpenTelemetry collector that gets the spans (default: OTEL_EXPORTER_OTLP_ENDPOINT; without it no spans)")
	f.BoolVar(&o.traceCalls, "trace-calls", false, "also make a span of each launch, copy and wait")
	f.DurationVar(&o.health, "health", 10*time.Second, "`time` between two reads of the devices' health from the driver; a device with a major alarm gets no requests; 0 never reads it")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "`time` that running requests have to end after SIGTERM")
	f.Group("The engine")
	f.IntVar(&o.engine.Blocks, "blocks", 256, "`blocks` of the key-value cache")
	f.IntVar(&o.engine.BlockSize, "block", 128, "`tokens` in a block")
	f.IntVar(&o.engine.Sequences, "sequences", 16, "largest batch: `requests` that run at the same time")
	f.IntVar(&o.engine.Budget, "budget", 512, "`tokens` that a step reads at most")
	f.IntVar(&o.engine.Queue, "queue", 64, "length of the queue: `requests` that wait; further ones get status 429")
	f.IntVar(&o.engine.Speculate, "speculate", 0, "draft `tokens` of a step: those that followed the same words before, else one that the model's own layer for that predicts (speculative decoding); they change no text")
	f.BoolVar(&o.engine.Graph, "graph", false, "capture the steps in which all requests generate as graphs and replay them, which saves the host the launches")
	f.IntVar(&o.engine.MaxLength, "max-length", 0, "`tokens` of a request and its answer together (default: what all blocks hold, and what the model is made for)")
	f.Group("Limits of a request")
	f.Int64Var(&o.api.MaxBody, "max-body", 1<<20, "`bytes` of the body of a request")
	f.IntVar(&o.api.MaxTokens, "max-tokens", 0, "`tokens` of an answer; 0 sets no limit")
	f.IntVar(&o.api.MaxChoices, "max-choices", 32, "`answers` of a request: its prompts times its n")
	f.IntVar(&o.api.PerClient, "client-requests", 64, "open `requests` of one client, which is a key or an address; 0 sets no limit")
	f.DurationVar(&o.api.Deadline, "deadline", 10*time.Minute, "`time` that a request may take; 0 sets no limit")
	if err := fromEnvironment(f.FlagSet); err != nil {
		return o, err
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.complete(f)
}

// fromEnvironment sets the flags that the environment has.
func fromEnvironment(f *flag.FlagSet) error {
	var errs []error
	f.VisitAll(func(x *flag.Flag) {
		name := environment + strings.ToUpper(strings.ReplaceAll(x.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok {
			if err := f.Set(x.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: %w", name, value, err))
			}
		}
	})
	return errors.Join(errs...)
}

func parseDevices(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		d, err := strconv.Atoi(part)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is not a device", part)
		}
		all = append(all, d)
	}
	return all, nil
}

// shared reports whether two replicas would use a device.
func (o *options) shared() bool {
	all := slices.Sorted(slices.Values(o.devices))
	for i := 1; i < len(all); i++ {
		if all[i]-all[i-1] < max(o.engine.Tensor, 1) {
			return true
		}
	}
	return false
}

// complete checks the flags and reads the files that they name.
func (o *options) complete(f *command.Flags) (err error) {
	if err = o.source.Check(f); err != nil {
		return err
	}
	switch {
	case o.api.Adapters != "" && o.source.Folder == "":
		return errors.New("-adapters needs -model")
	case o.api.Adapters != "" && (o.adapterSlots < 1 || o.engine.AdapterRank < 1):
		return fmt.Errorf("-adapter-slots %d and -adapter-rank %d; both must be positive", o.adapterSlots, o.engine.AdapterRank)
	case o.judge != "" && o.source.Folder == "":
		return errors.New("-judge needs -model")
	case o.shared():
		return fmt.Errorf("-device %v with -tp %d: a device would be in two replicas", o.devices, o.engine.Tensor)
	case (o.cert == "") != (o.key == ""):
		return errors.New("-tls-cert and -tls-key go together")
	}
	if o.api.Adapters != "" {
		o.engine.Adapters = o.adapterSlots
	} else if err := f.Idle("-adapters", "adapter-slots", "adapter-rank"); err != nil {
		return err
	}
	if o.judge == "" {
		if err := f.Idle("-judge", "judge-task"); err != nil {
			return err
		}
	} else if err := o.readAnswers(); err != nil {
		return fmt.Errorf("-judge: %w", err)
	}
	o.source.Seed = 1
	if o.source.Text, err = sources(); err != nil {
		return err
	}
	o.api.Model = o.name
	if o.name == "" {
		o.api.Model = "small"
		if o.source.Folder != "" {
			o.api.Model = filepath.Base(o.source.Folder)
		}
	}
	if o.keys == "" {
		return nil
	}
	text, err := os.ReadFile(o.keys) // also a pipe
	if err != nil {
		return err
	}
	o.api.Keys = strings.Fields(string(text))
	if len(o.api.Keys) == 0 {
		return fmt.Errorf("-keys: %s has no keys", o.keys)
	}
	return nil
}

// readAnswers finds the tokens of -judge.
func (o *options) readAnswers() error {
	words := strings.Split(o.judge, ",")
	if len(words) != 2 {
		return fmt.Errorf("%q are not two tokens, for no and yes", o.judge)
	}
	tok, err := tokenizer.Load(o.source.Folder)
	if err == nil {
		err = hub.AsWritten(o.source.Folder) // the question is not in lower case
	}
	if err != nil {
		return err
	}
	o.source.Answers = new([2]int32)
	for i, w := range words {
		id, ok := tok.ID(w)
		if !ok {
			return fmt.Errorf("%q is no token of %s", w, o.source.Folder)
		}
		o.source.Answers[i] = id
	}
	if o.source.Answers[0] == o.source.Answers[1] {
		return fmt.Errorf("%q are one token twice; no and yes are two", o.judge)
	}
	return nil
}

// own is the text that a model is trained on if none is given: the sources of this program.
//
//go:embed *.go api/*.go engine/*.go
var own embed.FS

func sources() (text []byte, err error) {
	err = fs.WalkDir(own, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(own, path)
		text = append(text, b...)
		return err
	})
	return text, err
}
