package smoke

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Toolkit lists the kernels of a CANN installation, from the files that aclnn reads, too:
// op_impl/ai_core/tbe/kernel/config/<chip>/*.json of each operator package, and the list of operators
// of the AI CPU.
type Toolkit struct {
	// Folders are the folders with configurations that were found, the first to be asked first.
	Folders []string `json:"folders"`
	Chip    string   `json:"chip"` // name of the chip's folder, such as "ascend910b"
	// Kernels is the number of kernels found, and Problems are the files that could not be read.
	Kernels  int      `json:"kernels"`
	Problems []string `json:"problems,omitempty"`

	operators map[string][]kernel // by CANN's name of the operator, such as "Sort"
	aicpu     map[string][]slot
}

// kernel is a compiled kernel of an operator.
type kernel struct {
	operator string
	inputs   []slot
}

// slot is an input with the dtypes that it takes.
type slot struct {
	name   string
	dtypes []string
	bytes  bool // any dtype of the same size will do
	absent bool // the kernel is for calls without this input
}

// OperatorFolders returns the operator packages of this machine, in CANN's order: those of
// ASCEND_CUSTOM_OPP_PATH, the vendors of an installation, and its own.
func OperatorFolders() (all []string) {
	for _, dir := range filepath.SplitList(os.Getenv("ASCEND_CUSTOM_OPP_PATH")) {
		if dir != "" {
			all = append(all, dir)
		}
	}
	var homes []string
	if opp := os.Getenv("ASCEND_OPP_PATH"); opp != "" {
		homes = append(homes, opp)
	}
	for _, v := range []string{"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"} {
		if home := os.Getenv(v); home != "" {
			homes = append(homes, filepath.Join(home, "opp"))
		}
	}
	homes = append(homes, "/usr/local/Ascend/ascend-toolkit/latest/opp", "/usr/local/Ascend/cann/opp")
	for _, opp := range homes {
		if !exists(filepath.Join(opp, "built-in")) {
			continue
		}
		vendors, _ := fs.Glob(os.DirFS(opp), "vendors/*/op_impl") // the pattern is well-formed
		for _, v := range vendors {
			all = append(all, filepath.Dir(filepath.Join(opp, v)))
		}
		return append(all, filepath.Join(opp, "built-in"))
	}
	return all
}

// chipFolder returns the name of the folder with the kernels of a chip.
func chipFolder(soc string) string {
	for _, known := range []string{"ascend910_93", "ascend910_95", "ascend910b", "ascend310p", "ascend310b", "ascend950", "ascend910", "ascend310"} {
		if strings.HasPrefix(strings.ToLower(soc), known) {
			return known
		}
	}
	return strings.ToLower(soc)
}

// ReadToolkit reads the configurations of operator packages for a chip, such as "Ascend910B1". What
// cannot be read becomes a problem of the toolkit.
func ReadToolkit(packages []string, soc string) *Toolkit {
	t := &Toolkit{Chip: chipFolder(soc), operators: map[string][]kernel{}, aicpu: map[string][]slot{}}
	for _, dir := range packages {
		config := filepath.Join(dir, "op_impl", "ai_core", "tbe", "kernel", "config", t.Chip)
		if exists(config) {
			t.Folders = append(t.Folders, config)
			t.readFolder(config)
		}
		list := filepath.Join(dir, "op_impl", "aicpu", "aicpu_kernel", "config", "aicpu_kernel.json")
		if exists(list) {
			t.note(list, t.readAICPU(list))
		}
	}
	return t
}

func (t *Toolkit) note(path string, err error) {
	if err != nil {
		t.Problems = append(t.Problems, fmt.Sprintf("%s: %v", path, err))
	}
}

// readFolder reads the files of operators. Newer toolkits have a folder for each part of the library.
func (t *Toolkit) readFolder(dir string) {
	earlier := make(map[string]bool, len(t.operators)) // operators of a package that comes before
	for name := range t.operators {
		earlier[name] = true
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" || d.Name() == "binary_info_config.json" {
			return err
		}
		t.note(path, t.readOperator(path, earlier))
		return nil
	})
	t.note(dir, err)
}

// readOperator reads the kernels of one operator.
func (t *Toolkit) readOperator(path string, earlier map[string]bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		List []struct {
			Inputs []json.RawMessage `json:"inputs"`
			Info   struct {
				Path string `json:"jsonFilePath"`
			} `json:"binInfo"`
		} `json:"binList"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, b := range file.List {
		name, _, ok := strings.Cut(filepath.Base(b.Info.Path), "_")
		if !ok {
			return fmt.Errorf("a kernel has the path %q", b.Info.Path)
		}
		if earlier[name] {
			continue // CANN asks the package that comes first
		}
		k := kernel{operator: name}
		for _, raw := range b.Inputs {
			s, err := readSlot(raw)
			if err != nil {
				return err
			}
			k.inputs = append(k.inputs, s)
		}
		t.operators[name] = append(t.operators[name], k)
		t.Kernels++
	}
	return nil
}

// readSlot reads an input: an object, a list of them for a list of tensors, or null where an optional
// input is absent.
func readSlot(raw json.RawMessage) (s slot, err error) {
	type input struct {
		Name  string          `json:"name"`
		DType json.RawMessage `json:"dtype"`
		Match string          `json:"dtype_match_mode"`
	}
	var one *input
	if len(raw) > 0 && raw[0] == '[' {
		var list []*input
		if err = json.Unmarshal(raw, &list); err == nil && len(list) > 0 {
			one = list[0]
		}
	} else {
		err = json.Unmarshal(raw, &one)
	}
	if err != nil || one == nil {
		return slot{absent: true}, err
	}
	s = slot{name: one.Name, bytes: one.Match == "DtypeByte"}
	var dt string
	if json.Unmarshal(one.DType, &dt) == nil && dt != "" {
		s.dtypes = []string{dtypeName(dt)}
	}
	return s, nil
}

// dtypeName converts CANN's names of dtypes in configurations to those of package aclnn.
func dtypeName(name string) string {
	name = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "DT_"))
	switch name {
	case "float":
		return "float32"
	case "double":
		return "float64"
	case "bf16":
		return "bfloat16"
	}
	return name
}

// readAICPU reads the operators of the AI CPU with the dtypes of their inputs.
func (t *Toolkit) readAICPU(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for name, parts := range list {
		var inputs []slot
		for i := 0; ; i++ {
			raw, ok := parts[fmt.Sprintf("input%d", i)]
			if !ok {
				break
			}
			var in struct{ Name, Type string }
			if err := json.Unmarshal(raw, &in); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s := slot{name: in.Name}
			for dt := range strings.SplitSeq(in.Type, ",") {
				s.dtypes = append(s.dtypes, dtypeName(dt))
			}
			inputs = append(inputs, s)
		}
		t.aicpu[name] = inputs
	}
	return nil
}

// sizes are the bytes of an element, for inputs that go by size.
var sizes = map[string]int{
	"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4,
	"int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}

// takes reports whether the slot takes a dtype.
func (s *slot) takes(dt string) bool {
	if s.absent || len(s.dtypes) == 0 {
		return true
	}
	return slices.Contains(s.dtypes, dt) || s.bytes && sizes[dt] != 0 && sizes[dt] == sizes[s.dtypes[0]]
}
