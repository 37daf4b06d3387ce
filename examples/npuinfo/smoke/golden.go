package smoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
)

// GoldenFolder finds the reference data: the folder that CANN_GOLDEN_DIR names, or testdata/golden of
// the module at or above the working directory. The module's download has none; a clone has.
func GoldenFolder() (string, error) {
	if dir := os.Getenv("CANN_GOLDEN_DIR"); dir != "" {
		return dir, nil
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if dir := filepath.Join(root, "testdata", "golden"); exists(filepath.Join(dir, casesFile)) {
			return dir, nil
		}
		if root == filepath.Dir(root) {
			return "", errors.New("there is no reference data: run in a clone of the repository, or name its testdata/golden with CANN_GOLDEN_DIR")
		}
		root = filepath.Dir(root)
	}
}

const (
	casesFile   = "ops.json"
	tensorsFile = "ops.safetensors"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// golden is a case of the reference data: options by name, and tensors.
type golden struct {
	Op, Name string
	DType    aclnn.DType // that the reference was computed for
	options  map[string]json.RawMessage
	file     *safetensors.File
}

var goldenTypes = map[string]aclnn.DType{"": aclnn.Float32, "f32": aclnn.Float32, "f16": aclnn.Float16, "bf16": aclnn.BFloat16}

// goldenCases reads the list of cases.
func goldenCases(dir string) ([]golden, error) {
	text, err := os.ReadFile(filepath.Join(dir, casesFile))
	if err != nil {
		return nil, err
	}
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", casesFile, err)
	}
	var cases []golden
	for _, options := range all {
		c := golden{options: options}
		dtype := ""
		for name, to := range map[string]*string{"op": &c.Op, "case": &c.Name, "dtype": &dtype} {
			if raw, ok := options[name]; ok {
				if err := json.Unmarshal(raw, to); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", casesFile, name, err)
				}
			}
		}
		known := false
		if c.DType, known = goldenTypes[dtype]; !known || c.Name == "" {
			return nil, fmt.Errorf("%s: case %q of %q has dtype %q", casesFile, c.Name, c.Op, dtype)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// tensor finds a tensor of the case.
func (c *golden) tensor(name string) (safetensors.Tensor, error) {
	return c.file.Tensor(c.Name + "/" + name)
}

func (c *golden) has(name string) bool {
	_, err := c.tensor(name)
	return err == nil
}

// option reads an option into a variable.
func (c *golden) option(name string, to any) error {
	raw, ok := c.options[name]
	if !ok {
		return fmt.Errorf("case %s has no option %s", c.Name, name)
	}
	return json.Unmarshal(raw, to)
}
