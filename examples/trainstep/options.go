package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/preference"
)

// options are the flags.
type options struct {
	given                            map[string]string // the flags on which all ranks must agree
	usualLR                          bool              // -lr was not given
	data, model, dtype, save, resume string
	autoResume                       bool
	device, steps, batch, seq        int
	saveEvery, keep                  int
	layers, hidden, heads, kvHeads   int
	vocab                            int
	experts, perToken, expertSize    int
	fullInterval                     int
	groupedNZ, strict                bool
	shardRules                       shardRules
	shardAlign                       int64
	simulation                       simulation
	headDim, intermediate            int
	lr, warmup                       float64
	lora                             loraOptions
	export                           string
	pack                             bool
	schedule, log, eval              string
	capacity                         expertCapacity
	biasRate                         float64 // of experts
	metrics, tensorboard             string
	verbose                          bool
	tokens                           string   // file of -tokenize
	compare                          []string // two logs or folders
	detect                           bool
	memory                           model.Memory
	evalEvery, evalBatches           int
	loss                             string
	dpo                              preference.DPO
	minLR, decay, maxNorm            float64
	cooldown                         int
	merge                            bool
	seed                             uint64

	ranks, micro    int
	layout          model.Layout
	pipeline        pipeline
	sequence, shard bool
	distributed     bool
	graph           bool
	profile         string // folder
	watching        job.Watching
}

const about = `trainstep trains a model of the Qwen3 family on text, and compares its loss with the loss of a model that
only knows how often each byte occurs. By default it trains a small model of bytes on the sources around it.`

var samples = []string{
	"go run -tags emu ./examples/trainstep",
	"go run -tags emu ./examples/trainstep -model qwen3_moe -dtype bf16 -gmm-nz",
	"go run -tags emu ./examples/trainstep -ranks 8 -tp 2 -pp 2 -micro 2",
	"go run -tags emu ./examples/trainstep -ranks 2 -pp 2 -micro 4 -pp-schedule zero-bubble",
	"go run -tags emu ./examples/trainstep -model Qwen3-0.6B -lora 16 -export mine",
	"go run ./examples/launch -n 8 -- ./trainstep -model qwen3_moe -ep 4 -fsdp",
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "trainstep [flags]", about, samples...)
	f.Group("What to train")
	f.StringVar(&o.data, "data", "", "`path` of the samples to train on: a text, JSON lines or a JSON array of samples, which have text, messages, or prompt and response, a .parquet file with such columns, a .bin file of 16-bit token ids, a file that -tokenize wrote, or a folder of texts and samples; .gz and .zst files are unpacked, and the first bytes of a file say what it is (default: the module around the working folder)")
	f.StringVar(&o.tokens, "tokenize", "", "train nothing: tokenize -data with the tokenizer of -model and write the tokens to this .tokens `file`; -data then reads only the parts of the file that a run needs")
	f.BoolVar(&o.pack, "pack", true, "pack several samples into a row, so that attention does not cross their borders; with false each row has one sample, padded to the longest")
	f.StringVar(&o.model, "model", "qwen3", "`type` of a new model, one of "+modelTypes()+", or a folder with a Hugging Face model to start from: config.json and safetensors")
	f.BoolVar(&o.strict, "strict", false, "refuse a folder in -model that has files or keys which a warning would name, and samples with keys that are not read")
	f.StringVar(&o.dtype, "dtype", "", "element `type`: bf16 with fp32 master weights; fp16 with fp32 master weights and a loss scale; fp32; or hf32, which is fp32 with rounded factors of products (default: bf16 on a device, fp32 on the emulator)")
	f.StringVar(&o.save, "save", "", "write a checkpoint to this `folder` at the end of the training, and on SIGTERM or Ctrl-C")
	f.IntVar(&o.saveEvery, "save-every", 0, "also write a checkpoint after every so many `steps`, while the training goes on")
	f.IntVar(&o.keep, "keep", 3, "number of newest `checkpoints` to keep")
	f.BoolVar(&o.autoResume, "auto-resume", false, "resume from the newest checkpoint in -save, or begin if there is none: for jobs that a scheduler starts again")
	f.StringVar(&o.resume, "resume", "", "resume from the newest checkpoint in this `folder`, or from this checkpoint if the folder is one; the layout of the ranks may differ")
	f.StringVar(&o.export, "export", "", "write the result to this `folder` in the form that Hugging Face's libraries read: a model, or with -lora or -adapter an adapter for PEFT")
	f.Group("Training")
	f.IntVar(&o.steps, "steps", 100, "number of the last step")
	f.IntVar(&o.batch, "batch", 8, "sequences in a step")
	f.IntVar(&o.seq, "seq", 128, "tokens in a sequence")
	f.Float64Var(&o.lr, "lr", 0, "learning `rate` (default: 3e-3 for a new model, 2e-5 for a model from a folder, 2e-4 for an adapter; with -loss dpo 1e-6, and 1e-5 for an adapter)")
	f.Float64Var(&o.warmup, "warmup", 10, "steps over which the learning rate rises")
	f.StringVar(&o.schedule, "schedule", "cosine", "`shape` of the learning rate after the warm-up: cosine, linear, constant, or wsd (constant, then linear over -cooldown)")
	f.Float64Var(&o.minLR, "min-lr", 0.1, "learning rate of the last step, as a `fraction` of -lr")
	f.IntVar(&o.cooldown, "cooldown", 0, "number of last `steps` over which -schedule wsd lowers the learning rate (default: a tenth of -steps)")
	f.Float64Var(&o.decay, "weight-decay", 0.1, "weight decay of AdamW; norms and biases do not decay")
	f.Float64Var(&o.maxNorm, "clip", 1, "largest `norm` of the gradients, which are scaled down to it; 0 sets no limit")
	f.Float64Var(&o.biasRate, "expert-bias-rate", 0, "how much each update changes the biases by which DeepSeek V3 and GLM-4.5 balance the load of their experts, such as 0.001; 0 leaves them as they are")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the weights of a new model and of the order of the samples")
	f.BoolVar(&o.groupedNZ, "gmm-nz", false, "let the products of experts read their weights in FRACTAL_NZ: one grouped product with -dtype bf16, one product for each expert with other types")
	f.BoolVar(&o.graph, "graph", false, "capture a step as a graph and replay it, which saves the host the launches; with -ep or -etp it needs -expert-capacity, and has room for all rows of experts that can come")
	f.Var((*recompute)(&o.memory.Recompute), "recompute", "what the backward pass computes again in place of keeping it: `none`, attention, block (all of a layer but its input), or full (of each √n of n layers all but one input)")
	f.BoolVar(&o.memory.Offload, "offload", false, "with -recompute block, keep the inputs of layers in page-locked host memory between the passes")
	f.Group("Adapters of a frozen model, with -model FOLDER")
	f.IntVar(&o.lora.rank, "lora", 0, "train an adapter of this `rank` instead of the model's weights (LoRA)")
	f.Float64Var(&o.lora.alpha, "lora-alpha", 0, "scale of the adapter: its products are multiplied by `alpha`/rank (default: twice the rank)")
	f.StringVar(&o.lora.targets, "lora-targets", model.AllLinear, "`names` of the linear layers that the adapter changes, separated by commas, or all-linear")
	f.BoolVar(&o.lora.experts, "lora-experts", false, "also adapt each expert of a layer, as PEFT's target_parameters do")
	f.Float64Var(&o.lora.dropout, "lora-dropout", 0, "`probability` with which training drops an input of the adapter")
	f.StringVar(&o.lora.folder, "adapter", "", "continue with the adapter in this `folder`, written by trainstep -export or PEFT")
	f.BoolVar(&o.merge, "merge", false, "let -export add the adapter to the model's weights and write a model")
	f.Group("Losses that compare a chosen and a rejected answer, with -model FOLDER")
	f.StringVar(&o.loss, "loss", crossEntropy, "`loss` to train with: cross-entropy of the next token; dpo (direct preference optimisation), whose reference is the model in -model, or with -lora and -adapter the model without the adapter; or reward, which trains a model with a head of one label, a new one if the folder has none, to score the chosen answer higher. The samples of dpo and reward have a prompt and chosen and rejected answers, -batch counts pairs, and -seq bounds the tokens of a prompt with an answer")
	f.Float64Var(&o.dpo.Beta, "beta", 0.1, "with -loss dpo, how strongly the reference holds: the `factor` of log-probabilities")
	f.Float64Var(&o.dpo.LabelSmoothing, "label-smoothing", 0, "with -loss dpo, `probability` that a pair is the other way round, below 0.5")
	f.Float64Var(&o.dpo.SFTWeight, "sft-weight", 0, "with -loss dpo, `factor` of the cross-entropy of the chosen answers, which is added")
	o.modelFlags(f)
	o.deviceFlags(f)
	f.Group("Reports")
	f.StringVar(&o.eval, "eval", "", "`path` of held-out samples, in the forms of -data; their loss is reported at the end")
	f.IntVar(&o.evalEvery, "eval-every", 0, "also report the loss of the held-out samples after every so many `steps`")
	f.IntVar(&o.evalBatches, "eval-batches", 8, "largest number of `batches` of held-out samples to evaluate")
	f.StringVar(&o.log, "log", "", "append a line of JSON for each step to this `file`: loss, norm, learning rate, tokens a second, MFU, memory, and the time in kernels, communication and waiting")
	f.StringVar(&o.metrics, "metrics", "", "keep the numbers of the last step in this `FILE.prom`, which Prometheus gets from node_exporter's textfile collector")
	f.StringVar(&o.tensorboard, "tensorboard", "", "write the numbers of each step to an event file in this `folder`, for TensorBoard")
	f.BoolVar(&o.verbose, "v", false, "print which kernel each operator gets, and why it does not get the others, once for each choice")
	compare := f.String("compare", "", "train nothing: draw the losses of this `log` and of a second one, named after it, as SVG on standard output; for two folders of -save, print how far their weights are apart")
	f.BoolVar(&o.detect, "detect-anomaly", false, "stop at the first layer or gradient with NaN or infinite numbers, and name it; this waits for the device after each layer")
	o.simulation.flags(f)
	f.Group("Profiles")
	f.StringVar(&o.profile, "profile", "", "let CANN's profiler record the steps into this `folder` for msprof, with the names of steps and layers")
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
	o.given, o.usualLR = given(f), true
	f.Visit(func(one *flag.Flag) { o.usualLR = o.usualLR && one.Name != "lr" })
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
		{o.loss == dpo, "-loss dpo", "beta label-smoothing sft-weight"},
		{!o.compares(), "-loss cross-entropy", "pack tokenize graph lora-dropout"},
		{o.layout.TP > 1, "-tp", "sp"},
		{o.layout.CP > 1, "-cp", "ulysses"},
		{o.layout.PP > 1, "-pp", "pp-schedule pp-chunks pp-draw"},
		{o.layout.EP*o.layout.ExpertTP > 1, "-ep or -etp", "expert-capacity"},
		{o.simulation.on(), "-simulate or -plan", "world"},
		{o.simulation.chip != "", "-simulate", "search simulate-trace"},
		{!o.simulation.on(), "a training that is run, without -simulate and -plan", notSimulated},
		{o.folder() || o.data != "", "a folder in -model, or -data", "strict"},
		{!o.folder(), "the type of a new model in place of the folder in -model", "vocab layers hidden intermediate heads kv-heads head-dim experts experts-per-token expert-size full-interval"},
	} {
		if !c.on {
			err = errors.Join(err, f.Idle(c.needs, strings.Fields(c.flags)...))
		}
	}
	return err
}

// check refuses values of flags that make no sense, alone or beside others.
func (o *options) check() error {
	if o.simulation.chip != "" && o.simulation.plan != "" {
		return errors.New("-simulate and -plan exclude each other: -simulate prints the memory too")
	}
	if o.detect && o.graph {
		return errors.New("-detect-anomaly checks each layer, and -graph replays all layers at once; leave one of the flags out")
	}
	if o.memory.Offload && (o.graph || o.memory.Recompute != model.RecomputeBlock) {
		return errors.New("-offload moves the inputs of layers to the host: it needs -recompute block, and steps without -graph")
	}
	if o.steps < 1 || o.batch < 1 || o.seq < 1 || o.ranks < 1 || o.micro < 1 || o.keep < 1 {
		return errors.New("-steps, -batch, -seq, -ranks, -micro and -keep must be positive")
	}
	if _, ok := dtypes[o.dtype]; !ok && o.dtype != "" {
		return fmt.Errorf("-dtype %q; use bf16, fp16, fp32 or hf32", o.dtype)
	}
	if err := errors.Join(o.checkLora(), o.checkSchedule(), o.checkEval(), o.checkLoss()); err != nil {
		return err
	}
	if o.tokens != "" && filepath.Ext(o.tokens) != tokensSuffix {
		return fmt.Errorf("-tokenize %q; the name must end with %s", o.tokens, tokensSuffix)
	}
	for _, f := range []struct {
		name string
		size int
	}{{"-tp", o.layout.TP}, {"-cp", o.layout.CP}, {"-ulysses", o.layout.Ulysses}, {"-pp", o.layout.PP}, {"-ep", o.layout.EP}, {"-etp", o.layout.ExpertTP}} {
		if f.size < 1 {
			return fmt.Errorf("%s is %d; it is a number of ranks, 1 at least", f.name, f.size)
		}
	}
	if err := o.pipeline.check(o.layout.PP, o.micro); err != nil {
		return err
	}
	if o.pipeline.schedule == zeroBubble && o.shard {
		return errors.New("-pp-schedule zero-bubble excludes -fsdp: for the gradients of weights a stage would gather its shards once more, and hold the whole gradients of all its layers; use -pp-schedule 1f1b, or -distributed-optimizer in place of -fsdp")
	}
	if o.layout.CP%o.layout.Ulysses != 0 {
		return fmt.Errorf("-ulysses %d does not divide the %d ranks of -cp", o.layout.Ulysses, o.layout.CP)
	}
	if o.layout.Replicas < 1 || o.layout.Replicas > 1 && !o.shard {
		return errors.New("-replicas must be positive, and more than 1 needs -fsdp")
	}
	if o.biasRate != 0 && o.lora.on() {
		return errors.New("-expert-bias-rate changes the biases of the model, which -lora and -adapter leave as it is")
	}
	if o.distributed && (o.shard || o.lora.on()) {
		return errors.New("-distributed-optimizer excludes -fsdp, which shards more, and -lora and -adapter, whose moments are small")
	}
	if !o.shard && (o.shardAlign != 0 || o.shardRules != nil) || o.shardAlign < 0 {
		return errors.New("-shard-align and -shard-rules need -fsdp, and -shard-align must not be negative")
	}
	if o.autoResume && (o.save == "" || o.resume != "") {
		return errors.New("-auto-resume needs -save, and excludes -resume")
	}
	if o.folder() && o.resume != "" && !o.lora.on() {
		return errors.New("-model with a folder and -resume exclude each other: a checkpoint has its model")
	}
	if info, err := os.Stat(o.model); o.folder() && (err != nil || !info.IsDir()) {
		return fmt.Errorf("-model %q is neither a folder nor a type of a new model; the types are %s", o.model, modelTypes())
	}
	return nil
}

func (o *options) modelFlags(f *command.Flags) {
	f.Group("Sizes of a new model")
	f.IntVar(&o.vocab, "vocab", 0, "size of the vocabulary (default: that of the text)")
	f.IntVar(&o.layers, "layers", 4, "layers")
	f.IntVar(&o.hidden, "hidden", 192, "hidden size")
	f.IntVar(&o.intermediate, "intermediate", 512, "feed-forward size")
	f.IntVar(&o.heads, "heads", 6, "attention heads")
	f.IntVar(&o.kvHeads, "kv-heads", 2, "key and value heads")
	f.IntVar(&o.headDim, "head-dim", 32, "size of a head")
	f.IntVar(&o.experts, "experts", 8, "experts of a layer, for types with experts")
	f.IntVar(&o.perToken, "experts-per-token", 2, "experts for each token")
	f.IntVar(&o.expertSize, "expert-size", 192, "feed-forward size of an expert")
	f.IntVar(&o.fullInterval, "full-interval", 4, "for types with delta nets: one of so many `layers` has attention")
}

func (o *options) deviceFlags(f *command.Flags) {
	f.Group("Several devices")
	f.IntVar(&o.device, "device", 0, "device of the first rank in this process")
	f.IntVar(&o.ranks, "ranks", 1, "ranks to run in this process, each on a device of its own; under a launcher each process is one rank")
	f.IntVar(&o.layout.TP, "tp", 1, "ranks that share each layer (tensor parallelism)")
	f.BoolVar(&o.sequence, "sp", false, "also divide the tokens between the tensor-parallel layers (sequence parallelism)")
	f.IntVar(&o.layout.CP, "cp", 1, "ranks that share each sequence (context parallelism)")
	f.IntVar(&o.layout.Ulysses, "ulysses", 1, "with -cp, how many of its `ranks` exchange positions for heads; the others pass keys, values and states around")
	f.IntVar(&o.layout.PP, "pp", 1, "ranks that share the layers (pipeline parallelism)")
	o.pipeline.flags(f)
	f.IntVar(&o.micro, "micro", 1, "number of `micro-batches` into which a rank divides its sequences for the pipeline")
	f.IntVar(&o.layout.EP, "ep", 1, "data-parallel ranks that share the experts (expert parallelism)")
	f.IntVar(&o.layout.ExpertTP, "etp", 1, "ranks that share each expert (expert tensor parallelism): the experts of a layer are on -ep times so many ranks, each of which has a part of the intermediate features")
	f.Var(&o.capacity, "expert-capacity", "with -ep or -etp, `times` the balanced number of rows for which the experts of a rank have memory: the ranks then gather each other's tokens, and the host does not wait in each layer. A step that needs more is computed twice. With 0, rows are sent to the ranks of their experts, for which the host waits for their numbers (default: 2 if -ep is at most the number of experts of a token, else 0, as gathering would move more bytes)")
	f.BoolVar(&o.shard, "fsdp", false, "shard weights, gradients and moments over the data-parallel ranks")
	f.BoolVar(&o.distributed, "distributed-optimizer", false, "shard moments, fp32 weights, and gradients after the backward pass over the data-parallel ranks; the weights that layers read stay whole")
	f.Int64Var(&o.shardAlign, "shard-align", 0, "with -fsdp, align each weight's part of a shard to a multiple of so many `elements`; the operator that slices and converts weights is fastest with 512")
	f.Var(&o.shardRules, "shard-rules", "with -fsdp, the `roles` of weights, as module/weight=role separated by commas. Shards keep a grouped weight of experts in the order in which the products read it, and -gmm-nz gathers it in FRACTAL_NZ. Shards keep a plain weight as hub folders do, and -gmm-nz converts it in each pass. A whole weight stays whole on each rank, as those of attention do with self_attn.*/weight=whole. grouped:512 also aligns the parts of the weight (default with -gmm-nz: mlp.experts/*_proj=grouped)")
	f.IntVar(&o.layout.Replicas, "replicas", 1, "with -fsdp, number of `groups` of ranks that each keep all shards, such as one group for each host")
}

func modelTypes() string { return strings.Join(model.ModelTypes(), ", ") }

// folder reports whether -model is a folder rather than a type.
func (o options) folder() bool { return !slices.Contains(model.ModelTypes(), o.model) }

// expertCapacity is the flag of model.Parallel.ExpertCapacity.
type expertCapacity struct {
	given bool
	times float64
}

func (c *expertCapacity) String() string {
	if !c.given {
		return ""
	}
	return strconv.FormatFloat(c.times, 'g', -1, 64)
}

func (c *expertCapacity) Set(text string) (err error) {
	c.given = true
	if c.times, err = strconv.ParseFloat(text, 64); err != nil || c.times != 0 && !(c.times >= 1) || math.IsInf(c.times, 0) {
		return errors.New("use 0, or a number of 1 at least")
	}
	return nil
}

// of returns the capacity for a model over ranks of -ep and -etp.
func (c expertCapacity) of(cfg model.Config, layout model.Layout) float64 {
	if !c.given && layout.EP*layout.ExpertTP > 1 && layout.EP <= cfg.ExpertsPerToken {
		return 2
	}
	return c.times
}

// recompute is the flag of model.Recompute.
type recompute model.Recompute

func (r *recompute) String() string { return string(*r) }

func (r *recompute) Set(text string) error {
	switch model.Recompute(text) {
	case model.RecomputeNone, model.RecomputeAttention, model.RecomputeBlock, model.RecomputeFull:
		*r = recompute(text)
		return nil
	}
	return errors.New("use none, attention, block or full")
}
