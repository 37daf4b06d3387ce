// Command trainstep trains a Qwen3 model on text, every operator launched through CANN's C
// ABI: on an Ascend NPU, or with the build tag emu on the emulator.
//
//	go run -tags emu ./examples/trainstep
//
// By default it trains a small byte-level model on the sources around it for 100 steps and
// compares the loss with that of a model that only knows how often each byte occurs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/ops"
)

// options are the flags.
type options struct {
	data, model, dtype, save, resume string
	device, steps, batch, seq        int
	saveEvery                        int
	layers, hidden, heads, kvHeads   int
	experts, perToken, expertSize    int
	fullInterval                     int
	groupedNZ                        bool
	headDim, intermediate            int
	lr, warmup                       float64
	seed                             uint64
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("trainstep", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.data, "data", "", "text to learn: a `path` of a file or folder, or a .bin file of 16-bit token ids (default: the module around the working folder)")
	f.StringVar(&o.model, "model", "qwen3", "`type` of a new model, one of "+strings.Join(qwen.ModelTypes(), ", ")+", or a folder with a Hugging Face model to start from: config.json and safetensors")
	f.StringVar(&o.dtype, "dtype", "fp32", "fp32, or bf16 with fp32 master weights")
	f.StringVar(&o.save, "save", "", "write a checkpoint to this `file` at the end")
	f.IntVar(&o.saveEvery, "save-every", 0, "write it every so many `steps` too")
	f.StringVar(&o.resume, "resume", "", "go on from the checkpoint in this `file`")
	f.IntVar(&o.device, "device", 0, "device to run on")
	f.IntVar(&o.steps, "steps", 100, "steps to train up to")
	f.IntVar(&o.batch, "batch", 8, "sequences in a step")
	f.IntVar(&o.seq, "seq", 128, "tokens in a sequence")
	f.IntVar(&o.layers, "layers", 4, "layers of a new model")
	f.IntVar(&o.hidden, "hidden", 192, "hidden size of a new model")
	f.IntVar(&o.intermediate, "intermediate", 512, "feed-forward size of a new model")
	f.IntVar(&o.heads, "heads", 6, "attention heads of a new model")
	f.IntVar(&o.kvHeads, "kv-heads", 2, "key and value heads of a new model")
	f.IntVar(&o.headDim, "head-dim", 32, "size of a head of a new model")
	f.IntVar(&o.experts, "experts", 8, "experts of a new model with experts")
	f.IntVar(&o.perToken, "experts-per-token", 2, "experts that each token gets")
	f.IntVar(&o.fullInterval, "full-interval", 4, "every so many `layers` of a new model with delta nets has attention instead")
	f.IntVar(&o.expertSize, "expert-size", 192, "feed-forward size of an expert")
	f.BoolVar(&o.groupedNZ, "gmm-nz", false, "let the grouped products of experts read FRACTAL_NZ weights; needs -dtype bf16")
	f.Float64Var(&o.lr, "lr", 3e-3, "learning rate")
	f.Float64Var(&o.warmup, "warmup", 10, "steps over which the learning rate rises")
	f.Uint64Var(&o.seed, "seed", 1, "seed of weights and batches")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.steps < 1 || o.batch < 1 || o.seq < 1 {
		return o, errors.New("-steps, -batch and -seq must be positive")
	}
	if o.folder() && o.resume != "" {
		return o, errors.New("-model with a folder and -resume exclude each other: a checkpoint has its model")
	}
	if o.groupedNZ && o.dtype != "bf16" {
		return o, errors.New("-gmm-nz needs -dtype bf16: CANN's grouped products read FRACTAL_NZ weights of 16 bits only")
	}
	return o, nil
}

// folder reports whether -model is a folder rather than a type.
func (o options) folder() bool { return !slices.Contains(qwen.ModelTypes(), o.model) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trainstep:", err)
		os.Exit(1)
	}
}

// run trains and reports to out.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer closing(&err, rt)
	dev, err := rt.Device(o.device)
	if err != nil {
		return err
	}
	defer closing(&err, dev)
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer closing(&err, st)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer closing(&err, reg)
	text, err := loadCorpus(o.data)
	if err != nil {
		return err
	}
	t, err := newTrainer(ctx, o, st, reg, text)
	if err != nil {
		return err
	}
	defer closing(&err, t)
	where := rt.SoC()
	if rt.Emulated() {
		where += " (emulated)"
	}
	fmt.Fprintf(out, "%s, %.2f M parameters in %s, %d tokens a step, text: %s\n",
		where, float64(t.model.Config.Parameters())/1e6, o.dtype, o.batch*o.seq, text.source)
	return t.train(ctx, out)
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }

// dtypes are the values of -dtype.
var dtypes = map[string]aclnn.DType{"fp32": aclnn.Float32, "bf16": aclnn.BFloat16}

// newModel makes the model of the options: a checkpoint's, a Hugging Face model, or a new
// one of the given sizes for the text's vocabulary.
func newModel(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, vocab int) (*qwen.Model, error) {
	dt, ok := dtypes[o.dtype]
	if !ok {
		return nil, fmt.Errorf("-dtype %q; use fp32 or bf16", o.dtype)
	}
	cfg := qwen.Config{
		ModelType: o.model, VocabSize: vocab, HiddenSize: o.hidden, IntermediateSize: o.intermediate, Layers: o.layers,
		Heads: o.heads, KVHeads: o.kvHeads, HeadDim: o.headDim, RMSNormEps: 1e-6, RopeTheta: 10000,
		InitializerRange: 0.02, TieWordEmbeddings: true,
		Experts: o.experts, ExpertsPerToken: o.perToken, MoEIntermediate: o.expertSize, SharedIntermediate: o.expertSize, NormTopK: true, SparseStep: 1,
		RouterLoss: true, RouterLossScale: 0.01,
		// Delta nets have the heads of attention.
		PartialRotary: 0.25, LayerTypes: qwen.HybridLayers(o.layers, o.fullInterval), LinearTaps: 4,
		LinearKeyHeads: o.kvHeads, LinearValueHeads: o.heads, LinearKeyDim: o.headDim, LinearValueDim: o.headDim,
	}
	var err error
	switch {
	case o.resume != "":
		cfg, _, err = qwen.SavedConfig(o.resume)
	case o.folder():
		cfg, err = qwen.ReadConfig(o.model + "/config.json")
	}
	if err != nil {
		return nil, err
	}
	if vocab > cfg.VocabSize {
		return nil, fmt.Errorf("the text has token ids up to %d, the model's vocabulary has %d", vocab-1, cfg.VocabSize)
	}
	cfg.GroupedNZ = o.groupedNZ
	m, err := qwen.New(st, reg, cfg, dt)
	if err != nil {
		return nil, err
	}
	switch {
	case o.folder():
		err = m.Load(ctx, o.model)
	case o.resume == "":
		err = m.Init(ctx, o.seed)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}
