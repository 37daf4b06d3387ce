package weights

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/model"
)

// Flags adds the flags that choose a model: -model, -adapter, -strict, -dtype, -quant, and -type and -train-steps of one to train.
// Steps and Type have their defaults, qwen3 if Type is empty. Check follows when the flags are parsed.
func (s *Source) Flags(f *command.Flags) {
	f.Group("The model")
	f.StringVar(&s.Folder, "model", "", "`folder` of a Hugging Face model, or of trainstep's checkpoints (default: train a small one first)")
	f.StringVar(&s.Adapter, "adapter", "", "`folder` of an adapter for -model, as trainstep -lora exports it or PEFT saves it")
	f.BoolVar(&s.Strict, "strict", false, "refuse a -model that has files or keys which a warning would name")
	f.Var((*elements)(&s.DType), "dtype", "element `type`: fp32 or bf16")
	f.Var(precision{s}, "quant", "`form` of the weights of linear layers: w8a8 for int8 weights and inputs, kept for those of a quantised -model as they are; both need -dtype bf16")
	f.StringVar(&s.Type, "type", cmp.Or(s.Type, "qwen3"), "`type` of the model to train when there is no -model: one of "+strings.Join(model.ModelTypes(), ", "))
	f.IntVar(&s.Steps, "train-steps", s.Steps, "training `steps` when there is no -model")
}

// CacheFlag adds -cache, for programs with a key-value cache.
func (s *Source) CacheFlag(f *command.Flags) {
	f.Var(cached{s}, "cache", "`form` of keys and values in the cache: int8 for codes with a scale for each token and head, in about half of the memory; it needs -dtype bf16 (default: as -dtype)")
}

// Check refuses flags that do not fit the model, and flags that would do nothing.
func (s *Source) Check(f *command.Flags) error {
	if s.Folder != "" {
		if err := f.Idle("a new model, without -model", "type", "train-steps"); err != nil {
			return err
		}
	}
	switch {
	case s.Strict && s.Folder == "":
		return errors.New("-strict needs a -model that is a folder")
	case s.Adapter != "" && s.Folder == "":
		return errors.New("-adapter needs the -model that it was trained for")
	case (s.Quantize || s.KeepCodes) && s.DType == aclnn.Float32:
		return fmt.Errorf("-quant %v needs -dtype bf16", precision{s})
	case s.Int8Cache && s.DType == aclnn.Float32:
		return errors.New("-cache int8 needs -dtype bf16")
	case s.KeepCodes && s.Folder == "":
		return errors.New("-quant kept needs a -model with quantised weights")
	case s.Folder == "" && s.Steps < 1:
		return fmt.Errorf("-train-steps %d; it must be positive", s.Steps)
	case s.Folder == "" && !slices.Contains(model.ModelTypes(), s.Type):
		return fmt.Errorf("-type %q; use one of %s", s.Type, strings.Join(model.ModelTypes(), ", "))
	}
	return nil
}

// elements is a flag that names an element type.
type elements aclnn.DType

var dtypes = map[string]aclnn.DType{"fp32": aclnn.Float32, "bf16": aclnn.BFloat16}

func (e *elements) String() string {
	for name, dt := range dtypes {
		if e != nil && dt == aclnn.DType(*e) {
			return name
		}
	}
	return ""
}

func (e *elements) Set(name string) error {
	dt, ok := dtypes[name]
	if !ok {
		return errors.New("use fp32 or bf16")
	}
	*e = elements(dt)
	return nil
}

// precision is a flag that names a form of weights.
type precision struct{ *Source }

func (p precision) String() string {
	switch {
	case p.Source == nil:
	case p.Quantize:
		return "w8a8"
	case p.KeepCodes:
		return "kept"
	}
	return ""
}

func (p precision) Set(name string) error {
	if name != "" && name != "w8a8" && name != "kept" {
		return errors.New("use w8a8 or kept")
	}
	p.Quantize, p.KeepCodes = name == "w8a8", name == "kept"
	return nil
}

// cached is a flag that names the form of a cache.
type cached struct{ *Source }

func (c cached) String() string {
	if c.Source != nil && c.Int8Cache {
		return "int8"
	}
	return ""
}

func (c cached) Set(name string) error {
	if name != "" && name != "int8" {
		return errors.New("use int8")
	}
	c.Int8Cache = name == "int8"
	return nil
}
