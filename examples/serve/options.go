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
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/weights"
)

const about = `serve answers requests in the form of OpenAI's interface with a model of the Qwen3 family. Without
-model it first trains a small model of bytes on its own sources. The variable SERVE_MAX_TOKENS of the
environment stands for -max-tokens, and so on.`

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
	pprof, traceCalls bool
	trace             string
	places            int // for adapters
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
	f.StringVar(&o.api.Adapters, "adapters", "", "`folder` with adapters, each a PEFT folder; all are loaded, and clients can load others there")
	f.IntVar(&o.engine.AdapterRank, "adapter-rank", 64, "largest `rank` of an adapter there")
	f.IntVar(&o.places, "adapter-places", 4, "`adapters` that can be loaded at the same time, with -adapters")
	f.StringVar(&o.name, "name", "", "its `name` in requests (default: that of the folder, or small)")
	o.devices = []int{0}
	f.Func("device", "`device` to run on, or several with commas between: each has a replica of the model (default 0)", func(text string) (err error) {
		o.devices, err = parseDevices(text)
		return err
	})
	f.IntVar(&o.engine.Tensor, "tp", 1, "`devices` that share each layer, from -device on (tensor parallelism)")
	f.Group("The interface")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&o.cert, "tls-cert", "", "`file` with the certificate, for TLS")
	f.StringVar(&o.key, "tls-key", "", "`file` with its key")
	f.StringVar(&o.keys, "keys", "", "`file` with bearer tokens, a line each, of which requests need one")
	f.BoolVar(&o.pprof, "pprof", false, "show profiles at /debug/pprof")
	f.StringVar(&o.trace, "trace", "", "`URL` of a collector of OpenTelemetry, to which spans go (default: that of OTEL_EXPORTER_OTLP_ENDPOINT, or none)")
	f.BoolVar(&o.traceCalls, "trace-calls", false, "make a span of each launch, copy and wait, too")
	f.DurationVar(&o.health, "health", 10*time.Second, "`time` between questions to the driver for the health of the devices, of which those with a major alarm get no requests; 0 asks never")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "`time` that requests have to end after SIGTERM")
	f.Group("The engine")
	f.IntVar(&o.engine.Blocks, "blocks", 256, "`blocks` of the cache of keys and values")
	f.IntVar(&o.engine.BlockSize, "block", 128, "`tokens` of a block")
	f.IntVar(&o.engine.Sequences, "sequences", 16, "`requests` that run at the same time")
	f.IntVar(&o.engine.Budget, "budget", 512, "`tokens` of a step")
	f.IntVar(&o.engine.Queue, "queue", 64, "`requests` that wait; more get status 429")
	f.IntVar(&o.engine.Speculate, "speculate", 0, "`tokens` to guess in a step from what followed the same words before; they change no text")
	f.BoolVar(&o.engine.Graph, "graph", false, "capture the steps that only generate as graphs and replay them, which spares the host the launches")
	f.IntVar(&o.engine.MaxLength, "max-length", 0, "`tokens` of a request with its answer (default: what all blocks hold)")
	f.Group("Limits of a request")
	f.Int64Var(&o.api.MaxBody, "max-body", 1<<20, "`bytes` of its body")
	f.IntVar(&o.api.MaxTokens, "max-tokens", 0, "`tokens` of an answer; 0 is no limit")
	f.IntVar(&o.api.MaxChoices, "max-choices", 32, "`answers`: prompts times n")
	f.IntVar(&o.api.PerClient, "client-requests", 0, "open `requests` of one client; 0 is no limit")
	f.DurationVar(&o.api.Deadline, "deadline", 10*time.Minute, "`time` that it may take; 0 is no limit")
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
			return nil, fmt.Errorf("%q is no device", part)
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
	case o.api.Adapters != "" && (o.places < 1 || o.engine.AdapterRank < 1):
		return fmt.Errorf("-adapter-places %d and -adapter-rank %d; both must be positive", o.places, o.engine.AdapterRank)
	case o.shared():
		return fmt.Errorf("-device %v with -tp %d: a device would be in two replicas", o.devices, o.engine.Tensor)
	case (o.cert == "") != (o.key == ""):
		return errors.New("-tls-cert and -tls-key go together")
	}
	if o.api.Adapters != "" {
		o.engine.Adapters = o.places
	} else if err := f.Idle("-adapters", "adapter-places", "adapter-rank"); err != nil {
		return err
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
	text, err := os.ReadFile(o.keys)
	if err != nil {
		return err
	}
	o.api.Keys = strings.Fields(string(text))
	if len(o.api.Keys) == 0 {
		return fmt.Errorf("-keys: %s has no keys", o.keys)
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
