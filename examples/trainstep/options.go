package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/hccl/world"
)

// options are the flags.
type options struct {
	data, model, dtype, save, resume string
	autoResume                       bool
	device, steps, batch, seq        int
	saveEvery, keep                  int
	layers, hidden, heads, kvHeads   int
	experts, perToken, expertSize    int
	fullInterval                     int
	groupedNZ                        bool
	shardRules                       shardRules
	shardAlign                       int64
	chip                             string // of -cost
	headDim, intermediate            int
	lr, warmup                       float64
	lora                             loraOptions
	export                           string
	pack                             bool
	schedule, log, eval              string
	metrics, tensorboard             string
	verbose                          bool
	tokens                           string   // file of -tokenize
	compare                          []string // two logs or folders
	detect                           bool
	evalEvery, evalBatches           int
	minLR, decay, maxNorm            float64
	cooldown                         int
	merge                            bool
	seed                             uint64

	ranks, micro    int
	replicas        int
	layout          world.Layout
	sequence, shard bool
	ulysses         bool
	graph           bool
	profile         string // folder
	watching        job.Watching
}

const about = `trainstep trains a Qwen3 model on text and compares its loss with that of a model that only knows
how often each byte occurs. By default it trains a small model of bytes on the sources around it.`

var samples = []string{
	"go run -tags emu ./examples/trainstep",
	"go run -tags emu ./examples/trainstep -model qwen3_moe -dtype bf16 -gmm-nz",
	"go run -tags emu ./examples/trainstep -ranks 8 -tp 2 -pp 2 -micro 2",
	"go run -tags emu ./examples/trainstep -model Qwen3-0.6B -lora 16 -export mine",
	"go run ./examples/launch -n 8 -- ./trainstep -model qwen3_moe -ep 4 -fsdp",
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "trainstep [flags]", about, samples...)
	f.Group("What to train")
	f.StringVar(&o.data, "data", "", "what to learn: a `path` of a text, a folder of texts, a .jsonl or .parquet file whose lines or rows have text, messages, or prompt and response, a .bin file of 16-bit token ids, or a .tokens file of -tokenize (default: the module around the working folder)")
	f.StringVar(&o.tokens, "tokenize", "", "train nothing: write the tokens of -data, as the tokenizer of -model gives them, to this .tokens `file`, of which -data reads only what it needs")
	f.BoolVar(&o.pack, "pack", true, "put several samples into a row, which do not see each other; false: one a row, padded to the longest")
	f.StringVar(&o.model, "model", "qwen3", "`type` of a new model, one of "+modelTypes()+", or a folder with a Hugging Face model to start from: config.json and safetensors")
	f.StringVar(&o.dtype, "dtype", "", "element `type`: bf16 with fp32 master weights, fp16 with a loss scale too, fp32, or hf32: fp32 whose products round their factors (default: bf16, on the emulator fp32)")
	f.StringVar(&o.save, "save", "", "write a checkpoint to this `folder` at the end, and when the program is told to end")
	f.IntVar(&o.saveEvery, "save-every", 0, "write one every so many `steps` too, while the training goes on")
	f.IntVar(&o.keep, "keep", 3, "`checkpoints` to keep, the newest ones")
	f.BoolVar(&o.autoResume, "auto-resume", false, "go on from the newest checkpoint in -save if there is one, and begin else: for jobs that are started again")
	f.StringVar(&o.resume, "resume", "", "go on from the newest checkpoint in this `folder`, or from the one whose folder it is; the layout may be another")
	f.StringVar(&o.export, "export", "", "write the result to this `folder` as Hugging Face's libraries read it: a model, or with -lora or -adapter an adapter for PEFT")
	f.Group("Training")
	f.IntVar(&o.steps, "steps", 100, "steps to train up to")
	f.IntVar(&o.batch, "batch", 8, "sequences in a step")
	f.IntVar(&o.seq, "seq", 128, "tokens in a sequence")
	f.Float64Var(&o.lr, "lr", 3e-3, "learning rate")
	f.Float64Var(&o.warmup, "warmup", 10, "steps over which the learning rate rises")
	f.StringVar(&o.schedule, "schedule", "cosine", "how it falls afterwards: cosine, linear, constant, or wsd: constant, then linear")
	f.Float64Var(&o.minLR, "min-lr", 0.1, "`part` of -lr that is left at the end")
	f.IntVar(&o.cooldown, "cooldown", 0, "last `steps`, over which it falls with -schedule wsd (default: a tenth of all)")
	f.Float64Var(&o.decay, "weight-decay", 0.1, "decay of weights, but of norms and biases")
	f.Float64Var(&o.maxNorm, "clip", 1, "limit of the gradients' `norm`; 0 is none")
	f.Uint64Var(&o.seed, "seed", 1, "seed of weights and batches")
	f.BoolVar(&o.groupedNZ, "gmm-nz", false, "let the products of experts read FRACTAL_NZ weights; grouped ones with -dtype bf16, one per expert else")
	f.BoolVar(&o.graph, "graph", false, "capture a step as a graph and replay it, which spares the host the launches; the experts of a layer must be on one rank")
	f.Group("Adapters of a frozen model, with -model FOLDER")
	f.IntVar(&o.lora.rank, "lora", 0, "train an adapter of this `rank` instead of the model's weights (LoRA)")
	f.Float64Var(&o.lora.alpha, "lora-alpha", 0, "its products are scaled by `alpha`/rank (default: twice the rank)")
	f.StringVar(&o.lora.targets, "lora-targets", qwen.AllLinear, "linear layers that get a product: `names` with commas between, or all-linear")
	f.BoolVar(&o.lora.experts, "lora-experts", false, "give each expert of a layer products of its own too, as PEFT's target_parameters do")
	f.Float64Var(&o.lora.dropout, "lora-dropout", 0, "`probability` with which an input of a product is dropped in training")
	f.StringVar(&o.lora.folder, "adapter", "", "go on with the adapter in this `folder`, which trainstep -export or PEFT has written")
	f.BoolVar(&o.merge, "merge", false, "let -export add the adapter to the weights and write a model")
	o.modelFlags(f)
	o.deviceFlags(f)
	f.Group("Reports")
	f.StringVar(&o.eval, "eval", "", "held-out samples at this `path`, as of -data, whose loss is told at the end")
	f.IntVar(&o.evalEvery, "eval-every", 0, "tell it every so many `steps` too")
	f.IntVar(&o.evalBatches, "eval-batches", 8, "`batches` of them to try, at most all")
	f.StringVar(&o.log, "log", "", "append a line of JSON for each step to this `file`: loss, norm, learning rate, tokens a second, MFU, memory, and the time in kernels, communication and waiting")
	f.StringVar(&o.metrics, "metrics", "", "serve the numbers of the last step at this `address`, such as :9100, for Prometheus")
	f.StringVar(&o.tensorboard, "tensorboard", "", "write them to an event file in this `folder`, for TensorBoard")
	f.BoolVar(&o.verbose, "v", false, "tell which kernel an operator gets, and why it does not get the others, once for each choice")
	compare := f.String("compare", "", "train nothing: draw the losses of this `log` and of the one that follows, as SVG to the standard output; of two folders of -save, tell how far the weights are apart")
	f.BoolVar(&o.detect, "detect-anomaly", false, "end with the name of the first layer or gradient that has NaN or infinite numbers; this waits after each layer")
	f.StringVar(&o.chip, "cost", "", "train nothing: estimate on paper what a step of this run takes with -fsdp on devices of this `chip`: Ascend910B2, Ascend910_93 or others, with other numbers after it as in Ascend910B2,peak=354e12,efficiency=0.4,memory=1.2e12,link=196e9")
	f.Group("Profiles")
	f.StringVar(&o.profile, "profile", "", "have CANN's profiler record the steps into this `folder`, for msprof; steps and layers are named in it")
	f.Group("Faults")
	if err := o.watching.Flags(f.FlagSet); err != nil {
		return o, err
	}
	f.Operands = true
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case *compare != "" && f.NArg() == 1:
		o.compare = []string{*compare, f.Arg(0)}
	case *compare != "":
		return o, fmt.Errorf("-compare %s needs one more log or folder after it, and no other arguments", *compare)
	case f.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q (trainstep -h lists the flags)", f.Arg(0))
	}
	return o, errors.Join(o.checkIdle(f), o.check())
}

// checkIdle refuses flags that would do nothing.
func (o *options) checkIdle(f *command.Flags) (err error) {
	for _, c := range []struct {
		on    bool
		needs string
		flags string
	}{
		{o.save != "", "-save", "save-every keep"},
		{o.lora.rank != 0, "-lora", "lora-alpha lora-targets lora-experts lora-dropout"},
		{o.eval != "", "-eval", "eval-every eval-batches"},
		{o.schedule == "wsd", "-schedule wsd", "cooldown"},
		{o.layout.TP > 1, "-tp", "sp"},
		{o.layout.CP > 1, "-cp", "ulysses"},
		{!o.folder(), "the type of a new model in place of the folder in -model", "layers hidden intermediate heads kv-heads head-dim experts experts-per-token expert-size full-interval"},
	} {
		if !c.on {
			err = errors.Join(err, f.Idle(c.needs, strings.Fields(c.flags)...))
		}
	}
	return err
}

// check refuses values of flags that make no sense, alone or beside others.
func (o *options) check() error {
	if o.detect && o.graph {
		return errors.New("-detect-anomaly looks at each layer, and -graph replays them all; leave one of them out")
	}
	if o.steps < 1 || o.batch < 1 || o.seq < 1 || o.ranks < 1 || o.micro < 1 || o.keep < 1 {
		return errors.New("-steps, -batch, -seq, -ranks, -micro and -keep must be positive")
	}
	if _, ok := dtypes[o.dtype]; !ok && o.dtype != "" {
		return fmt.Errorf("-dtype %q; use bf16, fp16, fp32 or hf32", o.dtype)
	}
	if err := errors.Join(o.checkLora(), o.checkSchedule(), o.checkEval()); err != nil {
		return err
	}
	if o.tokens != "" && filepath.Ext(o.tokens) != tokensSuffix {
		return fmt.Errorf("-tokenize %q; the name must end with %s", o.tokens, tokensSuffix)
	}
	if o.replicas < 1 || o.replicas > 1 && !o.shard {
		return errors.New("-replicas must be positive, and needs -fsdp")
	}
	if !o.shard && (o.shardAlign != 0 || o.shardRules != nil || o.chip != "") || o.shardAlign < 0 {
		return errors.New("-shard-align, which is not negative, -shard-rules and -cost need -fsdp")
	}
	if o.autoResume && (o.save == "" || o.resume != "") {
		return errors.New("-auto-resume needs -save, and no -resume")
	}
	if o.folder() && o.resume != "" && !o.lora.on() {
		return errors.New("-model with a folder and -resume exclude each other: a checkpoint has its model")
	}
	if info, err := os.Stat(o.model); o.folder() && (err != nil || !info.IsDir()) {
		return fmt.Errorf("-model %q is no folder, and no type of a new model: those are %s", o.model, modelTypes())
	}
	return nil
}

func (o *options) modelFlags(f *command.Flags) {
	f.Group("Sizes of a new model")
	f.IntVar(&o.layers, "layers", 4, "layers")
	f.IntVar(&o.hidden, "hidden", 192, "hidden size")
	f.IntVar(&o.intermediate, "intermediate", 512, "feed-forward size")
	f.IntVar(&o.heads, "heads", 6, "attention heads")
	f.IntVar(&o.kvHeads, "kv-heads", 2, "key and value heads")
	f.IntVar(&o.headDim, "head-dim", 32, "size of a head")
	f.IntVar(&o.experts, "experts", 8, "experts, of types that have some")
	f.IntVar(&o.perToken, "experts-per-token", 2, "experts that each token gets")
	f.IntVar(&o.expertSize, "expert-size", 192, "feed-forward size of an expert")
	f.IntVar(&o.fullInterval, "full-interval", 4, "every so many `layers` have attention, of types with delta nets in the others")
}

func (o *options) deviceFlags(f *command.Flags) {
	f.Group("Several devices")
	f.IntVar(&o.device, "device", 0, "device of the first rank in this process")
	f.IntVar(&o.ranks, "ranks", 1, "ranks to run in this process, one device each; a launcher starts processes instead")
	f.IntVar(&o.layout.TP, "tp", 1, "ranks that divide each layer (tensor parallel)")
	f.BoolVar(&o.sequence, "sp", false, "divide the tokens between tensor-parallel layers too (sequence parallel)")
	f.IntVar(&o.layout.CP, "cp", 1, "ranks that divide each sequence (context parallel)")
	f.BoolVar(&o.ulysses, "ulysses", false, "with -cp, let attention exchange positions for heads, as delta nets do, instead of gathering keys")
	f.IntVar(&o.layout.PP, "pp", 1, "ranks that divide the layers (pipeline)")
	f.IntVar(&o.micro, "micro", 1, "`parts` of a rank's sequences that go through the pipeline one after another")
	f.IntVar(&o.layout.EP, "ep", 1, "ranks that divide the experts, of those with other data")
	f.BoolVar(&o.shard, "fsdp", false, "keep a shard of weights, gradients and moments on each rank with other data")
	f.Int64Var(&o.shardAlign, "shard-align", 0, "with -fsdp, let each weight's part of a shard begin and end at a multiple of so many `elements`; the operator that slices and converts is fastest with 512")
	f.Var(&o.shardRules, "shard-rules", "with -fsdp, the `roles` of weights, as module/weight=role with commas between: grouped are those of experts that shards keep in the order in which the products read them, and that -gmm-nz gathers in FRACTAL_NZ; plain are kept as in hub folders, and with -gmm-nz cast in each pass; grouped:512 aligns their parts of shards (default with -gmm-nz: mlp.experts/*_proj=grouped)")
	f.IntVar(&o.replicas, "replicas", 1, "with -fsdp, `groups` of ranks that each keep all shards, such as one per host")
}

func modelTypes() string { return strings.Join(qwen.ModelTypes(), ", ") }

// folder reports whether -model is a folder rather than a type.
func (o options) folder() bool { return !slices.Contains(qwen.ModelTypes(), o.model) }
