package smoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/ops"
)

// dtypes are those in which every case runs.
var dtypes = []aclnn.DType{aclnn.BFloat16, aclnn.Float32}

// Cases of the reference data by their operator, those that are computed here, and what is measured.
var (
	goldens = map[string]func(*bench){
		"attention": attention, "attention_varlen": packedAttention, "grouped_matmul": groupedMatmul, "nd_to_nz": toNZ,
		"slice_nz": sliceToNZ, "rms_norm": rmsNorm, "rope_half": rope, "swiglu": swiglu, "cross_entropy": crossEntropy,
		"embedding": embedding, "adamw": adamw, "moe_swiglu": experts, "gated_delta_rule": gatedDelta, "causal_conv1d": causalConv,
	}
	formulas = map[string]func(*bench){
		"linear": linear, "gated_norm": gatedNorm, "delta_gate": deltaGate, "clip_grad_norm": clipGradNorm,
		"decode": decoding,
	}
	measures = map[string]func(context.Context, *Config, func(message)) error{
		"launches": launches, "copies": copies, "collectives": collectives,
	}
)

// parts lists the parts in the order in which they run. Without reference data there are the others,
// and an error.
func parts(cfg *Config) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		names = append(names, "measure:"+name)
	}
	for _, name := range slices.Sorted(maps.Keys(formulas)) {
		names = append(names, "formula:"+name)
	}
	cases, err := goldenCases(cfg.Golden)
	for _, c := range cases {
		names = append(names, "golden:"+c.Name)
	}
	return names, err
}

// runPart tries a part and reports it.
func runPart(ctx context.Context, cfg *Config, name string, report func(message)) {
	kind, rest, _ := strings.Cut(name, ":")
	var err error
	switch measure := measures[rest]; {
	case kind == "measure" && measure != nil:
		err = measure(ctx, cfg, report)
	case kind == "formula" && formulas[rest] != nil:
		err = runCase(ctx, cfg, &golden{Name: rest, DType: aclnn.Float32}, formulas[rest], report)
	case kind == "golden":
		err = runGolden(ctx, cfg, rest, report)
	default:
		err = errors.New("there is no such part")
	}
	if err != nil {
		report(message{Problem: err.Error()})
	}
	report(message{Done: true})
}

func runGolden(ctx context.Context, cfg *Config, name string, report func(message)) (err error) {
	cases, err := goldenCases(cfg.Golden)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(cases, func(c golden) bool { return c.Name == name })
	if i < 0 {
		return errors.New("there is no such case")
	}
	c := &cases[i]
	run := goldens[c.Op]
	if run == nil {
		return fmt.Errorf("nothing is known of cases of %s", c.Op)
	}
	if c.file, err = safetensors.Open(filepath.Join(cfg.Golden, tensorsFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.file.Close()) }()
	return runCase(ctx, cfg, c, run, report)
}

// runCase runs a case in each dtype. A device that failed is left alone: the part then begins again
// without the step.
func runCase(ctx context.Context, cfg *Config, c *golden, run func(*bench), report func(message)) error {
	for _, dt := range dtypes {
		broken := false
		listen := func(m message) {
			broken = broken || m.Result != nil && (m.Result.Verdict == Failed || m.Result.Verdict == Hung)
			report(m)
		}
		err := onDevice(0, func(dev *acl.Device, st *acl.Stream) error {
			reg, err := ops.NewRegistry(ops.EnvOf(dev))
			if err != nil {
				return err
			}
			b := &bench{Registry: reg, ctx: ctx, cfg: cfg, st: st, c: c, dt: dt, report: listen}
			run(b)
			if broken {
				return nil // what can still be freed is freed with the process
			}
			if errors.Is(b.err, errStop) {
				b.err = nil
			}
			return errors.Join(b.err, b.wait(), b.close(), reg.Close())
		})
		if broken {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", dt, err)
		}
	}
	return nil
}

// onDevice opens a device with a stream for a function.
func onDevice(id int, f func(*acl.Device, *acl.Stream) error) (err error) {
	rt, err := acl.Open(acl.Config{QuietLeaks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	dev, err := rt.Device(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(dev, st)
}
