package qwen

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
)

// readWeight reads a weight of the checkpoint. The experts of a layer may be one tensor, or one
// tensor each as on the Hugging Face hub; in that case the gate and up projections of each expert
// are concatenated.
func readWeight(f *safetensors.File, name string, shape []int64) ([]float32, error) {
	values, err := readTensor(f, name, shape)
	if !errors.Is(err, safetensors.ErrNotFound) {
		return values, err
	}
	layer, projections := name, []string(nil)
	if prefix, ok := strings.CutSuffix(name, "experts.gate_up_proj"); ok {
		layer, projections = prefix, []string{"gate_proj", "up_proj"}
	} else if prefix, ok := strings.CutSuffix(name, "experts.down_proj"); ok {
		layer, projections = prefix, []string{"down_proj"}
	}
	if projections == nil {
		return nil, err
	}
	part := []int64{shape[1] / int64(len(projections)), shape[2]}
	values = nil
	for e := range shape[0] {
		for _, projection := range projections {
			v, err := readTensor(f, fmt.Sprintf("%sexperts.%d.%s.weight", layer, e, projection), part)
			if err != nil {
				return nil, err
			}
			values = append(values, v...)
		}
	}
	return values, nil
}
