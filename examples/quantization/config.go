package quantization

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/expression"
	"github.com/goascend/cann/examples/verdict"
)

// Config is the quantization_config of a config.json.
type Config struct {
	Method string // fp8, compressed-tensors, gptq, awq or mxfp4
	// scheme says how the weight of a module is stored; ok is false for one that is left out.
	scheme func(module string) (s scheme, ok bool, err error)
}

// scheme is how a weight is stored.
type scheme struct {
	bits int
	// A scale is for so many rows and columns; 0 is all of them.
	rows, columns int
	asymmetric    bool              // it has zero points
	packed        bool              // several codes are in an int32
	plusOne       bool              // zero points are stored less one
	codes         safetensors.DType // of codes that fill an element
	dynamic       bool              // products take inputs in int8, with a scale for each token
}

const key = "quantization_config"

// method reads the configuration of one method.
type method struct {
	keys  []verdict.Key
	parse func(t verdict.Table, text []byte) (func(module string) (scheme, bool, error), error)
}

var methods = map[string]method{
	"fp8": {fp8Keys, parseFP8}, "compressed-tensors": {compressedKeys, parseCompressed}, "gptq": {gptqKeys, parseGPTQ}, "awq": {awqKeys, parseAWQ}, "mxfp4": {mxfp4Keys, parseMXFP4},
}

// Methods are the values of quant_method that are read, in the order of the documentation.
var Methods = []string{"fp8", "compressed-tensors", "gptq", "awq", "mxfp4"}

// Table returns what becomes of each key of quantization_config for one of Methods. Others are refused.
func Table(name string) verdict.Table {
	keys := []verdict.Key{verdict.Honour(key+".quant_method", "chooses the method")}
	for _, k := range methods[name].keys {
		k.Name = key + "." + k.Name
		keys = append(keys, k)
	}
	return verdict.Table{Format: "config.json", Keys: keys}
}

// Parse reads the quantization_config of a config.json.
func Parse(text []byte) (*Config, error) {
	var head struct {
		Method *string `json:"quant_method"`
	}
	_ = json.Unmarshal(text, &head) // what cannot be decoded, the table names
	refuse := func(name, value, why string) error {
		return &verdict.Refusal{Format: "config.json", Key: name, Value: value, Why: why}
	}
	if head.Method == nil {
		return nil, refuse(key, string(text), "it has no quant_method, which names the form of the weights")
	}
	m, known := methods[*head.Method]
	if !known {
		return nil, refuse(key+".quant_method", *head.Method, "weights in this form are not read, those of "+strings.Join(Methods, ", ")+" are; convert the folder to bfloat16")
	}
	scheme, err := m.parse(Table(*head.Method), slices.Concat([]byte(`{"`+key+`":`), text, []byte("}")))
	if err != nil {
		return nil, err
	}
	return &Config{*head.Method, scheme}, nil
}

// decode reads a configuration through its table.
func decode[T any](t verdict.Table, text []byte) (c T, err error) {
	var outer struct {
		C *T `json:"quantization_config"`
	}
	outer.C = &c
	_, err = t.Decode(text, &outer)
	return c, err
}

// modules are expressions for names of modules, as transformers reads modules_to_not_convert: one that matches where a name
// begins, or that a name ends with.
type modules []string

func (list modules) match(set *expression.Set, module string) (bool, error) {
	if err := set.Step(len(list)); err != nil {
		return false, err
	}
	for _, one := range list {
		if strings.HasSuffix(module, one) {
			return true, nil
		}
		if ok, err := begins(set, one, module); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// begins reports whether an expression matches where a name begins.
func begins(set *expression.Set, pattern, name string) (bool, error) {
	ok, err := set.Begins(pattern, name)
	if err != nil {
		return false, fmt.Errorf("config.json: %s: the expression %.200q: %w", key, pattern, err)
	}
	return ok, nil
}

// except is one scheme for all modules that a list does not name.
func except(list modules, s scheme) func(string) (scheme, bool, error) {
	set := expression.New(key)
	return func(module string) (scheme, bool, error) {
		left, err := list.match(set, module)
		return s, !left, err
	}
}

var notConverted = verdict.Honour("modules_to_not_convert", "modules whose weights are plain: expressions for the begin of their names, or ends of them")

var fp8Keys = slices.Concat([]verdict.Key{
	notConverted,
	verdict.Honour("weight_block_size", "rows and columns for which a scale is; null is the whole weight"),
	verdict.Refuse("fmt", "codes are float8_e4m3fn", `"e4m3"`, `"float8_e4m3fn"`),
	verdict.NoEffect("activation_scheme", "inputs of products are not quantised"),
	verdict.NoEffect("scale_fmt", "scales have a type of their own in the folder"),
	verdict.NoEffect("dequantize", "weights always are dequantised"),
})

func parseFP8(t verdict.Table, text []byte) (func(string) (scheme, bool, error), error) {
	c, err := decode[struct {
		Except modules `json:"modules_to_not_convert"`
		Block  []int   `json:"weight_block_size"`
	}](t, text)
	if err != nil {
		return nil, err
	}
	s := scheme{bits: 8, codes: safetensors.Float8E4M3}
	if c.Block != nil {
		if len(c.Block) != 2 || c.Block[0] < 1 || c.Block[1] < 1 {
			return nil, fmt.Errorf("config.json: %s.weight_block_size is %v; it has rows and columns", key, c.Block)
		}
		s.rows, s.columns = c.Block[0], c.Block[1]
	}
	return except(c.Except, s), nil
}

var mxfp4Keys = []verdict.Key{notConverted, verdict.NoEffect("dequantize", "weights always are dequantised")}

func parseMXFP4(t verdict.Table, text []byte) (func(string) (scheme, bool, error), error) {
	c, err := decode[struct {
		Except modules `json:"modules_to_not_convert"`
	}](t, text)
	return except(c.Except, scheme{bits: 4, rows: 1, columns: 32}), err
}

// tools are keys that say how a folder of GPTQ or AWQ was made, or how another library computes with it.
var tools = slices.Concat(
	verdict.Each("damp_percent damp_auto_increment true_sequential static_groups mse act_group_aware dataset tokenizer batch_size pad_token_id model_seqlen cache_block_outputs module_name_preceding_first_block block_name_to_quantize modules_in_block_to_quantize meta model_name_or_path model_file_base_name quantizer", verdict.NoEffect("", "how the folder was made; its tensors show which modules are quantised")),
	verdict.Each("use_exllama disable_exllama exllama_config max_input_length use_cuda_fp16 backend do_fuse modules_to_fuse fuse_max_seq_len", verdict.NoEffect("", "how other libraries compute")),
	[]verdict.Key{verdict.Refuse("pack_dtype", "codes are in an int32", `"int32"`)},
)

var gptqKeys = slices.Concat([]verdict.Key{
	verdict.Honour("bits", "bits of a code: 2, 3, 4 or 8"),
	verdict.Honour("group_size", "inputs that share a scale; -1 is all of them"),
	verdict.Honour("checkpoint_format", "gptq, the default, stores zero points less one, gptq_v2 as they are; others are refused"),
	verdict.Honour("dynamic", "other bits and group_size by expression for the begin of names of modules; after -: those that are plain. The first that matches counts"),
	verdict.Refuse("is_marlin_format", "another order of the codes", "false"),
	verdict.NoEffect("desc_act", "g_idx has the group of each input"),
	verdict.NoEffect("sym", "qzeros has the zero points"),
	verdict.NoEffect("lm_head", "the tensors of lm_head show it"),
}, tools)

// Dynamic is the table of a member of dynamic of GPTQ.
var Dynamic = verdict.Table{Format: "config.json: quantization_config.dynamic", Keys: []verdict.Key{
	verdict.Honour("bits", "bits of a code, in place of those of the folder"),
	verdict.Honour("group_size", "inputs that share a scale, in place of those of the folder"),
	verdict.NoEffect("desc_act", "g_idx has the group of each input"),
	verdict.NoEffect("sym", "qzeros has the zero points"),
	verdict.NoEffect("mse", "how the folder was made"),
}}

func parseGPTQ(t verdict.Table, text []byte) (func(string) (scheme, bool, error), error) {
	c, err := decode[struct {
		Bits    int             `json:"bits"`
		Group   *int            `json:"group_size"`
		Format  string          `json:"checkpoint_format"`
		Dynamic json.RawMessage `json:"dynamic"`
	}](t, text)
	if err != nil {
		return nil, err
	}
	group := 128 // of GPTQConfig
	if c.Group != nil {
		group = *c.Group
	}
	if c.Format != "" && c.Format != "gptq" && c.Format != "gptq_v2" {
		return nil, &verdict.Refusal{Format: "config.json", Key: key + ".checkpoint_format", Value: c.Format, Why: "another order of the codes; gptq and gptq_v2 are read"}
	}
	whole, err := grouped(c.Bits, group, 2, 3, 4, 8)
	if err != nil {
		return nil, err
	}
	whole.plusOne = c.Format != "gptq_v2"
	rules, err := ordered(c.Dynamic)
	if err != nil {
		return nil, err
	}
	set := expression.New(key)
	return func(module string) (scheme, bool, error) {
		for _, r := range rules {
			pattern, left := strings.CutPrefix(r.name, "-:")
			ok, err := begins(set, strings.TrimPrefix(pattern, "+:"), module)
			if err != nil {
				return scheme{}, false, err
			}
			if !ok {
				continue
			}
			if left {
				return scheme{}, false, nil
			}
			var o struct {
				Bits  *int `json:"bits"`
				Group *int `json:"group_size"`
			}
			table := Dynamic
			table.Format += "." + r.name
			if _, err := table.Decode(r.value, &o); err != nil {
				return scheme{}, false, err
			}
			bits, group := c.Bits, group
			if o.Bits != nil {
				bits = *o.Bits
			}
			if o.Group != nil {
				group = *o.Group
			}
			s, err := grouped(bits, group, 2, 3, 4, 8)
			s.plusOne = whole.plusOne
			return s, true, err
		}
		return whole, true, nil
	}, nil
}

// grouped is a scheme with scales for groups of inputs.
func grouped(bits, group int, known ...int) (scheme, error) {
	if !slices.Contains(known, bits) {
		return scheme{}, fmt.Errorf("config.json: %s.bits is %d; it is one of %v", key, bits, known)
	}
	if group != -1 && group < 1 {
		return scheme{}, fmt.Errorf("config.json: %s.group_size is %d; it is positive, or -1 for all inputs", key, group)
	}
	return scheme{bits: bits, rows: 1, columns: max(group, 0), asymmetric: true, packed: true}, nil
}

// rule is a member of an object.
type rule struct {
	name  string
	value json.RawMessage
}

// ordered lists the members of an object in their order.
func ordered(text []byte) (list []rule, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	fail := func(err error) ([]rule, error) {
		return nil, fmt.Errorf("config.json: %s.dynamic: %w", key, err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fail(errors.Join(errors.New("it is no object"), err))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return fail(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fail(err)
		}
		list = append(list, rule{fmt.Sprint(name), value})
	}
	return list, nil
}

var awqKeys = slices.Concat([]verdict.Key{
	verdict.Honour("bits", "bits of a code: 4"),
	verdict.Honour("group_size", "inputs that share a scale; -1 is all of them"),
	notConverted,
	verdict.Refuse("version", "another order of the codes; gemm is read", `"gemm"`, `"GEMM"`, `"exllama"`, `"ipex"`),
	verdict.Refuse("zero_point", "the weights have zero points", "true"),
	verdict.Refuse("checkpoint_format", "another order of the codes; gemm is read", `"gemm"`),
	verdict.Refuse("format", "another order of the codes; gemm is read", `"gemm"`),
	verdict.NoEffect("desc_act", "the tensors have no order of inputs"),
	verdict.NoEffect("sym", "qzeros has the zero points"),
	verdict.NoEffect("lm_head", "the tensors of lm_head show it"),
}, tools)

func parseAWQ(t verdict.Table, text []byte) (func(string) (scheme, bool, error), error) {
	c, err := decode[struct {
		Bits   *int    `json:"bits"`
		Group  *int    `json:"group_size"`
		Except modules `json:"modules_to_not_convert"`
	}](t, text)
	if err != nil {
		return nil, err
	}
	bits, group := 4, 128 // of AwqConfig
	if c.Bits != nil {
		bits = *c.Bits
	}
	if c.Group != nil {
		group = *c.Group
	}
	s, err := grouped(bits, group, 4)
	return except(c.Except, s), err
}
