package quantization

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/expression"
	"github.com/goascend/cann/examples/verdict"
)

var compressedKeys = []verdict.Key{
	verdict.Honour("config_groups", "schemes and the modules that have them; see the next table"),
	verdict.Honour("ignore", "modules whose weights are plain: names, expressions after re:, or the class Linear"),
	verdict.Refuse("format", "another order of the codes", formats...),
	verdict.Refuse("sparsity_config", "weights are not sparse", "{}"),
	verdict.Refuse("transform_config", "weights are not rotated", "{}"),
	verdict.NoEffect("kv_cache_scheme", "the cache is not quantised"),
	verdict.NoEffect("quantization_status", "the tensors show it"),
	verdict.NoEffect("global_compression_ratio", "a statistic"),
	verdict.NoEffect("version", "the program that wrote the folder"),
	verdict.NoEffect("run_compressed", "-quant says whether codes are kept"),
}

var formats = []string{`"int-quantized"`, `"float-quantized"`, `"naive-quantized"`, `"pack-quantized"`, `"dense"`}

// Group is the table of a member of config_groups of compressed-tensors.
var Group = verdict.Table{Format: "config.json: quantization_config.config_groups", Keys: []verdict.Key{
	verdict.Honour("targets", "modules with this scheme: names, expressions after re:, or the class Linear. Names go before expressions, and these before the class"),
	verdict.Refuse("format", "another order of the codes", formats...),
	verdict.NoEffect("input_activations", "inputs of products are not quantised; those of linear layers with int8 codes (-quant kept) are, if it says so for each token, and those of experts are not"),
	verdict.NoEffect("output_activations", "results of products are not quantised"),
	verdict.Honour("weights.num_bits", "bits of a code"),
	verdict.Honour("weights.type", "int, or float for float8_e4m3fn"),
	verdict.Honour("weights.symmetric", "without zero points"),
	verdict.Honour("weights.strategy", "which weights share a scale: tensor, channel, group or block"),
	verdict.Honour("weights.group_size", "inputs that share a scale, of the strategy group"),
	verdict.Honour("weights.block_structure", "rows and columns that share a scale, of the strategy block"),
	verdict.NoEffect("weights.actorder", "weight_g_idx has the group of each input"),
	verdict.Refuse("weights.dynamic", "weights are quantised once", "false"),
	verdict.NoEffect("weights.observer", "how the folder was made"),
	verdict.NoEffect("weights.observer_kwargs", "how the folder was made"),
	verdict.NoEffect("weights.scale_dtype", "scales have a type of their own in the folder"),
	verdict.NoEffect("weights.zp_dtype", "zero points have a type of their own in the folder"),
}}

type group struct {
	name    string
	targets []string
	scheme  scheme
}

func parseCompressed(t verdict.Table, text []byte) (func(string) (scheme, bool, error), error) {
	c, err := decode[struct {
		Groups map[string]json.RawMessage `json:"config_groups"`
		Ignore []string                   `json:"ignore"`
		Format string                     `json:"format"`
	}](t, text)
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		g, err := parseGroup(name, c.Format, c.Groups[name])
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	set := expression.New(key)
	return func(module string) (scheme, bool, error) {
		if at, err := specific(set, module, c.Ignore); at > 0 || err != nil {
			return scheme{}, false, err
		}
		best, found := 0, scheme{}
		for _, g := range groups {
			at, err := specific(set, module, g.targets)
			if err != nil {
				return scheme{}, false, err
			}
			if at > best {
				best, found = at, g.scheme
			}
		}
		return found, best > 0, nil
	}, nil
}

// specific says how specifically a list of targets names a linear layer: 3 by its name, 2 by an expression, 1 by its
// class, 0 not at all.
func specific(set *expression.Set, module string, targets []string) (best int, err error) {
	if err := set.Step(len(targets)); err != nil {
		return 0, err
	}
	for _, one := range targets {
		pattern, is := strings.CutPrefix(one, "re:")
		switch {
		case is:
			ok, err := begins(set, pattern, module)
			if err != nil {
				return 0, err
			}
			if ok {
				best = max(best, 2)
			}
		case one == module:
			best = 3
		case one == "Linear":
			best = max(best, 1)
		}
	}
	return best, nil
}

func parseGroup(name, format string, text []byte) (group, error) {
	var c struct {
		Targets []string `json:"targets"`
		Format  string   `json:"format"`
		Weights struct {
			Bits      *int            `json:"num_bits"`
			Type      string          `json:"type"`
			Symmetric *bool           `json:"symmetric"`
			Strategy  string          `json:"strategy"`
			Group     *int            `json:"group_size"`
			Block     json.RawMessage `json:"block_structure"`
		} `json:"weights"`
		Inputs json.RawMessage `json:"input_activations"`
	}
	t := Group
	t.Format += "." + name
	if _, err := t.Decode(text, &c); err != nil {
		return group{}, err
	}
	if c.Format != "" {
		format = c.Format
	}
	g := group{name: name, targets: c.Targets, scheme: scheme{bits: 8, packed: format == "pack-quantized", codes: safetensors.Int8}}
	w := c.Weights
	if w.Bits != nil {
		g.scheme.bits = *w.Bits
	}
	g.scheme.asymmetric = w.Symmetric != nil && !*w.Symmetric
	fail := func(what string, value any, remedy string) (group, error) {
		return g, fmt.Errorf("%s: weights.%s is %v; %s", t.Format, what, value, remedy)
	}
	switch kind := strings.ToLower(w.Type); {
	case kind != "" && kind != "int" && kind != "float":
		return fail("type", w.Type, "it is int or float")
	case kind == "float" && g.scheme.packed:
		return fail("type", w.Type, "codes of pack-quantized are integers")
	case g.scheme.bits != 8 && (!g.scheme.packed || g.scheme.bits < 2 || g.scheme.bits > 8):
		return fail("num_bits", g.scheme.bits, "it is 8, and from 2 to 8 in pack-quantized")
	}
	if strings.EqualFold(w.Type, "float") {
		g.scheme.codes = safetensors.Float8E4M3
	}
	g.scheme.dynamic = dynamic(c.Inputs)
	strategy := strings.ToLower(w.Strategy)
	if strategy == "" { // as compressed-tensors infers it
		switch {
		case w.Group == nil:
			strategy = "tensor"
		case *w.Group == -1:
			strategy = "channel"
		default:
			strategy = "group"
		}
	}
	switch strategy {
	case "tensor":
	case "channel":
		g.scheme.rows = 1
	case "group":
		if w.Group == nil || *w.Group < 1 {
			return fail("group_size", show(w.Group), "the strategy group needs a positive one")
		}
		g.scheme.rows, g.scheme.columns = 1, *w.Group
	case "block":
		rows, columns, err := parseBlock(w.Block)
		if err != nil {
			return fail("block_structure", string(w.Block), "the strategy block needs rows and columns")
		}
		g.scheme.rows, g.scheme.columns = rows, columns
	default:
		return fail("strategy", w.Strategy, "it is tensor, channel, group or block")
	}
	return g, nil
}

// dynamic reports whether inputs are int8 without zero points, with a scale for each token that is computed with the product.
func dynamic(inputs json.RawMessage) bool {
	var c struct {
		Bits      int    `json:"num_bits"`
		Type      string `json:"type"`
		Symmetric *bool  `json:"symmetric"`
		Strategy  string `json:"strategy"`
		Dynamic   any    `json:"dynamic"` // false, true, or "local"
	}
	return json.Unmarshal(inputs, &c) == nil && c.Bits == 8 && strings.EqualFold(c.Type, "int") && (c.Symmetric == nil || *c.Symmetric) && strings.EqualFold(c.Strategy, "token") && c.Dynamic == true
}

func show(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// parseBlock reads [128, 128], or "128x128" of older versions.
func parseBlock(text []byte) (rows, columns int, err error) {
	var list []int
	var name string
	switch {
	case json.Unmarshal(text, &list) == nil && len(list) == 2:
		rows, columns = list[0], list[1]
	case json.Unmarshal(text, &name) == nil:
		if _, err := fmt.Sscanf(name, "%dx%d", &rows, &columns); err != nil {
			return 0, 0, err
		}
	}
	if rows < 1 || columns < 1 {
		err = errors.New("it has no rows or columns")
	}
	return rows, columns, err
}
