package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/ops"
)

const about = `attention shows for each kind of mask the arguments of FlashAttentionScore that the decision table
chooses, the kernel that runs, the reason, and the time. It also shows masks that are refused before they
would fail on the device.`

var samples = []string{
	"go run -tags emu ./examples/attention",
	"go run -tags emu ./examples/attention -seq 512 -dtype fp32",
	"go run -tags emu ./examples/attention -heads 32 -kv-heads 8 -head-dim 128 -backward=false",
}

// options are the flags.
type options struct {
	device, runs                     int
	batch, heads, kvHeads, seq, dims int64
	dtype                            aclnn.DType
	backward                         bool
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "attention [flags]", about, samples...)
	f.Group("Shapes")
	f.Int64Var(&o.batch, "batch", 2, "sequences")
	f.Int64Var(&o.heads, "heads", 8, "query heads")
	f.Int64Var(&o.kvHeads, "kv-heads", 2, "key and value heads")
	f.Int64Var(&o.seq, "seq", 256, "tokens of the longest sequence")
	f.Int64Var(&o.dims, "head-dim", 64, "size of a head")
	dtype := f.String("dtype", "bf16", "element `type`: bf16, fp16 or fp32")
	f.Group("Timing")
	f.IntVar(&o.device, "device", 0, "device to run on")
	f.IntVar(&o.runs, "runs", 3, "number of runs; the time of the shortest is shown")
	f.BoolVar(&o.backward, "backward", true, "also time the gradient")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var known bool
	o.dtype, known = map[string]aclnn.DType{"bf16": aclnn.BFloat16, "fp16": aclnn.Float16, "fp32": aclnn.Float32}[*dtype]
	switch {
	case !known:
		return o, fmt.Errorf("-dtype is %q; it must be bf16, fp16 or fp32", *dtype)
	case o.runs < 1 || o.batch < 1 || o.heads < 1 || o.kvHeads < 1 || o.dims < 1:
		return o, errors.New("-runs, -batch, -heads, -kv-heads and -head-dim must be positive")
	case o.seq < 8:
		return o, errors.New("-seq must be at least 8: the masks cut sequences in four")
	}
	return o, nil
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
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attention:", err)
		os.Exit(1)
	}
}

// run prints every mask to out.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	dev, err := rt.Device(o.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	st, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reg.Close()) }()

	d := demo{Scope: aclnn.Scope{Stream: st}, options: o, ctx: ctx, reg: reg, out: out}
	defer func() { err = errors.Join(err, d.Close()) }()
	fmt.Fprintf(out, "%s, B=%d, N=%d, Nkv=%d, S=%d, D=%d, %v\n", rt.SoC(), o.batch, o.heads, o.kvHeads, o.seq, o.dims, o.dtype)
	masks := d.masks()
	if err := d.Err(); err != nil {
		return err
	}
	for _, m := range masks {
		if err := d.show(m); err != nil {
			return fmt.Errorf("%s: %w", m.title, err)
		}
	}
	return nil
}

// demo holds the tensors with which the masks are tried.
type demo struct {
	options
	aclnn.Scope // owns all tensors
	ctx         context.Context
	reg         *ops.Registry
	out         io.Writer
}

// ones makes a tensor of ones.
func (d *demo) ones(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	t := d.Tensor(dt, shape...)
	aclnn.Launch(&d.Scope, aclnn.InplaceOne, aclnn.InplaceOneParams{Self: t})
	return t
}

// arguments returns the arguments of attention with a mask and of its gradient.
func (d *demo) arguments(m example) *ops.AttentionGradArgs {
	like := func(heads int64) []int64 {
		if m.layout == ops.TND {
			return []int64{m.tokens, heads, d.dims}
		}
		return []int64{d.batch, heads, d.seq, d.dims}
	}
	q, kv, stats := like(d.heads), like(d.kvHeads), like(d.heads)
	stats[len(stats)-1] = 8
	return &ops.AttentionGradArgs{
		AttentionArgs: ops.AttentionArgs{
			Query: d.ones(d.dtype, q...), Key: d.ones(d.dtype, kv...), Value: d.ones(d.dtype, kv...), Layout: m.layout,
			Mask: m.mask, Scale: 1 / math.Sqrt(float64(d.dims)), Out: d.ones(d.dtype, q...),
			SoftmaxMax: d.ones(aclnn.Float32, stats...), SoftmaxSum: d.ones(aclnn.Float32, stats...),
		},
		DOut: d.ones(d.dtype, q...), DQuery: d.ones(d.dtype, q...), DKey: d.ones(d.dtype, kv...), DValue: d.ones(d.dtype, kv...),
	}
}

// show prints the decision, the kernel and the time for a mask.
func (d *demo) show(m example) error {
	fmt.Fprintf(d.out, "\n%s\n", m.title)
	a := d.arguments(m)
	if err := d.Err(); err != nil {
		return err
	}
	decision, err := a.Decide()
	if err != nil {
		if !m.refused {
			return err
		}
		fmt.Fprintf(d.out, "  refused   %v\n", err)
		return nil
	}
	if m.refused {
		return errors.New("this mask was to be refused")
	}
	fmt.Fprintf(d.out, "  decision  %v\n  kernel    %v\n", decision, d.reg.Attention().Explain(&a.AttentionArgs))
	forward, err := d.time(func() error { return d.reg.Attention().Run(d.ctx, d.Stream, &a.AttentionArgs) })
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  time      %v", forward)
	if d.backward {
		backward, err := d.time(func() error { return d.reg.AttentionGrad().Run(d.ctx, d.Stream, a) })
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, ", gradient %v", backward)
	}
	fmt.Fprintln(d.out)
	return nil
}

// time returns the shortest time of several runs.
func (d *demo) time(queue func() error) (time.Duration, error) {
	best := time.Duration(math.MaxInt64)
	for range d.runs {
		start := time.Now()
		if err := queue(); err != nil {
			return 0, err
		}
		if err := d.Stream.Synchronize(d.ctx); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return best.Round(time.Microsecond), nil
}
