package quantization

import (
	"fmt"

	"github.com/goascend/cann/aclnn/safetensors"
)

// Codes are a quantised weight [Outputs, Inputs] as a folder has it, for products that read codes: an element is (code + offset)·scale. Of a weight with a matrix for each
// expert, Outputs counts the rows of all of them, one expert after another.
type Codes struct {
	Outputs, Inputs int
	Bits            int // 4 for codes from -8 to 7, or 8 for codes from -128 to 127
	Group           int // inputs that share a scale and an offset
	// Dynamic says that the folder's products take inputs in int8 too, with a scale for each token.
	Dynamic bool
	// Read returns codes [to-from, Inputs] of the outputs [from, to) in row-major order, and scales and offsets [to-from, Inputs/Group], of which the last
	// group may be smaller.
	Read func(from, to int) (codes []int8, scales, offsets []float32, err error)
}

// Codes returns the weights of a folder whose codes products can read, by the names that the weights have in View, and for the others why not.
func (c *Config) Codes(f *safetensors.File) (codes map[string]Codes, why map[string]string, err error) {
	codes, why = map[string]Codes{}, map[string]string{}
	v := &viewer{c: c, f: f}
	for _, name := range f.Names() {
		w, err := v.find(name)
		if err != nil {
			return nil, nil, fmt.Errorf("quantization: %s: %w", name, err)
		}
		if w == nil {
			continue
		}
		one, reason, err := w.codes()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("quantization: %s: %w", name, err)
		case reason != "":
			why[w.name] = reason
		default:
			codes[w.name] = one
		}
	}
	return codes, why, nil
}

// integers are the codes of a weight of integers.
type integers struct {
	bits int
	// half is subtracted from codes, so that these are signed.
	half int32
	// group is that of each input.
	group func() ([]int, error)
	// codes are those of rows [from, to) of a matrix, and factors the scales and zero points of their groups.
	codes   func(matrix, from, to int) ([]int32, error)
	factors func(matrix, from, to int) (scales []float32, zeros []int32, err error)
	dynamic bool
}

// weight is a weight of integers with this shape.
func (n *integers) weight(shape []int) *weight {
	return &weight{shape: shape, integers: n, rows: func(matrix, from, to int) ([]float32, error) {
		codes, err := n.codes(matrix, from, to)
		if err != nil {
			return nil, err
		}
		group, err := n.group()
		if err != nil {
			return nil, err
		}
		scales, zeros, err := n.factors(matrix, from, to)
		if err != nil {
			return nil, err
		}
		values, groups := make([]float32, len(codes)), len(scales)/max(to-from, 1)
		for i, code := range codes {
			at := i/len(group)*groups + group[i%len(group)]
			values[i] = float32(code-zeros[at]) * scales[at]
		}
		return values, nil
	}}
}

// codes returns the codes of a weight, or why there is no product of this form.
func (w *weight) codes() (c Codes, why string, err error) {
	n := w.integers
	if n == nil {
		return c, "no product of this package reads its codes", nil
	}
	rows, matrices := w.shape[len(w.shape)-2], 1
	if len(w.shape) == 3 {
		matrices = w.shape[0]
	}
	group, err := n.group()
	if err != nil {
		return c, "", err
	}
	c = Codes{Outputs: matrices * rows, Inputs: w.shape[len(w.shape)-1], Bits: 8, Group: w.shape[len(w.shape)-1], Dynamic: n.dynamic}
	if n.bits <= 4 {
		c.Bits = 4
	}
	for i, g := range group {
		if i > 0 && g > 0 {
			c.Group = i
			break
		}
	}
	for i, g := range group {
		if g != i/c.Group {
			return c, "the inputs of a group are not next to each other (g_idx)", nil
		}
	}
	c.Read = func(from, to int) (codes []int8, scales, offsets []float32, err error) {
		codes = make([]int8, 0, (to-from)*c.Inputs)
		for from < to {
			matrix, first := from/rows, from%rows
			end := min(first+to-from, rows)
			whole, err := n.codes(matrix, first, end)
			if err != nil {
				return nil, nil, nil, err
			}
			factors, zeros, err := n.factors(matrix, first, end)
			if err != nil {
				return nil, nil, nil, err
			}
			for _, code := range whole {
				codes = append(codes, int8(code-n.half))
			}
			for _, z := range zeros {
				offsets = append(offsets, float32(n.half-z))
			}
			scales, from = append(scales, factors...), from+end-first
		}
		return codes, scales, offsets, nil
	}
	return c, "", nil
}
