package quantization

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/aclnn/safetensors"
)

// View is a folder as if it had never been quantised: each quantised weight is in it as a float32 tensor with the name and shape
// that it would have, and what belongs to its codes is not in it. Closing the view closes the file. For a nil Config it is
// the file itself.
//
// What does not fit, and a folder without a quantised weight, is an error.
func (c *Config) View(f *safetensors.File) (*safetensors.File, error) {
	if c == nil {
		return f, nil
	}
	v, last := &viewer{c: c, f: f}, &band{}
	for _, name := range f.Names() {
		w, err := v.find(name)
		if err != nil {
			v.errs = append(v.errs, fmt.Errorf("quantization: %s: %w", name, err))
		}
		if w == nil {
			continue
		}
		info := safetensors.Info{Name: w.name, DType: safetensors.Float32, Shape: w.shape}
		v.made = append(v.made, safetensors.NewTensor(info, elements{w, last}))
	}
	switch {
	case len(v.errs) > 0:
		return nil, errors.Join(v.errs[:min(len(v.errs), 3)]...) // usually all are of one kind
	case len(v.made) == 0:
		return nil, fmt.Errorf("quantization: config.json has a %s of %s, and no weight of the folder is quantised so: take the key out, or get the folder's own weights", key, c.Method)
	}
	return f.View(v.used, v.made...), nil
}

// viewer finds the quantised weights of a folder.
type viewer struct {
	c    *Config
	f    *safetensors.File
	used []string // tensors of quantised weights
	made []safetensors.Tensor
	errs []error
}

// weight is a quantised weight: one matrix, or several.
type weight struct {
	name  string
	shape []int
	// integers are its codes, or nil if these are floats.
	integers *integers
	// rows dequantises the rows [from, to) of a matrix.
	rows func(matrix, from, to int) ([]float32, error)
}

func (w *weight) len() int { return safetensors.Info{Shape: w.shape}.Len() }

// find returns the weight whose codes a tensor has, or nil.
func (v *viewer) find(name string) (*weight, error) {
	t, err := v.f.Tensor(name)
	if err != nil {
		return nil, err
	}
	var make func(name string, t safetensors.Tensor, s scheme) (*weight, error)
	base, module := name, strings.TrimSuffix(name, ".weight")
	if base == module { // a weight of experts, whose module is one level higher
		module = name[:max(strings.LastIndexByte(name, '.'), 0)]
	}
	cut := func(suffix string) bool {
		rest, ok := strings.CutSuffix(name, suffix)
		if ok {
			base, module = rest+".weight", rest
		}
		return ok
	}
	switch v.c.Method {
	case "gptq", "awq":
		if !cut(".qweight") {
			return nil, nil
		}
		if make = v.gptq; v.c.Method == "awq" {
			make = v.awq
		}
	case "mxfp4":
		rest, ok := strings.CutSuffix(name, "_blocks")
		if !ok {
			return nil, nil
		}
		base, make = rest, v.mxfp4
	default:
		switch {
		case v.c.Method == "compressed-tensors" && cut(".weight_packed"):
			make = v.packed
		case t.DType == safetensors.Float8E4M3 || t.DType == safetensors.Int8 && v.c.Method == "compressed-tensors":
			if strings.HasSuffix(name, "_zero_point") || strings.HasSuffix(name, "_scale") { // of a weight
				return nil, nil
			}
			make = v.scaled
		default:
			return nil, nil
		}
	}
	s, ok, err := v.c.scheme(module)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("config.json's %s leaves the module %s out, and the folder has it in quantised form", key, module)
	}
	if _, err := v.f.Tensor(base); err == nil && base != name {
		return nil, fmt.Errorf("the folder also has %s; one of them is too much", base)
	}
	v.used = append(v.used, name)
	w, err := make(base, t, s)
	if w != nil {
		w.name = base
	}
	return w, err
}

// partner returns a tensor that belongs to codes; it is not in the view.
func (v *viewer) partner(name string, types ...safetensors.DType) (safetensors.Tensor, error) {
	t, err := v.f.Tensor(name)
	if err != nil {
		return t, fmt.Errorf("the folder lacks %s, which belongs to it", name)
	}
	v.used = append(v.used, name)
	if !slices.Contains(types, t.DType) {
		return t, fmt.Errorf("%s is %v; it must be one of %v", name, t.Info, types)
	}
	return t, nil
}

// has reports whether the folder has a tensor.
func (v *viewer) has(name string) bool {
	_, err := v.f.Tensor(name)
	return err == nil
}

// unused takes tensors that have no effect out of the view.
func (v *viewer) unused(names ...string) {
	for _, name := range names {
		if v.has(name) {
			v.used = append(v.used, name)
		}
	}
}

// fits checks a partner's shape.
func fits(t safetensors.Tensor, shape ...int) error {
	if !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("%s is %v; the codes and config.json's %s need %v", t.Name, t.Info, key, shape)
	}
	return nil
}

// elements is a weight as the bytes of its float32 elements.
type elements struct {
	*weight
	last *band
}

// band is the rows that were dequantised last in a folder. They are kept, since those who read a part of each row ask for
// it row by row.
type band struct {
	mu    sync.Mutex
	of    *weight
	first int // row, over all matrices
	bytes []byte
}

// bandElements is how many elements are dequantised at a time, or one row.
const bandElements = 1 << 22

// ReadAt implements io.ReaderAt.
func (e elements) ReadAt(p []byte, off int64) (done int, err error) {
	e.last.mu.Lock()
	defer e.last.mu.Unlock()
	b, wide := e.last, 4*int64(e.shape[len(e.shape)-1])
	for done < len(p) {
		if off < 0 || wide == 0 || off >= 4*int64(e.len()) {
			return done, io.EOF
		}
		if at := off - int64(b.first)*wide; b.of != e.weight || at < 0 || at >= int64(len(b.bytes)) {
			if err := b.fill(e.weight, int(off/wide)); err != nil {
				return done, err
			}
		}
		n := copy(p[done:], b.bytes[off-int64(b.first)*wide:])
		done, off = done+n, off+int64(n)
	}
	return done, nil
}

// fill dequantises rows from one on.
func (b *band) fill(w *weight, row int) error {
	rows, columns := w.shape[len(w.shape)-2], w.shape[len(w.shape)-1]
	from := row % rows
	values, err := w.rows(row/rows, from, min(rows, from+max(1, bandElements/columns)))
	if err != nil {
		return fmt.Errorf("quantization: %s: %w", w.name, err)
	}
	b.of, b.first, b.bytes = w, row, b.bytes[:0]
	for _, v := range values {
		b.bytes = binary.LittleEndian.AppendUint32(b.bytes, math.Float32bits(v))
	}
	return nil
}
