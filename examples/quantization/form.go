package quantization

import (
	"fmt"
	"math"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
)

var floats = []safetensors.DType{safetensors.Float32, safetensors.BFloat16, safetensors.Float16}

// scaled is a weight with a code in each element, of float8_e4m3fn or int8, of which blocks of rows and columns share a scale.
// Weights of experts may be several matrices.
func (v *viewer) scaled(name string, t safetensors.Tensor, s scheme) (*weight, error) {
	if n := len(t.Shape); n != 2 && n != 3 {
		return nil, fmt.Errorf("it is %v; a quantised weight has two dimensions, or three of experts", t.Info)
	}
	if t.DType != s.codes {
		return nil, fmt.Errorf("it is %v; config.json's %s says that its codes are %v", t.Info, key, s.codes)
	}
	scaleName := name + "_scale"
	if v.has(name + "_scale_inv") {
		scaleName = name + "_scale_inv"
	}
	scales, err := v.partner(scaleName, append(floats, safetensors.Float8E8M0)...)
	if err != nil {
		return nil, err
	}
	g := newGrid(t.Shape, s)
	if err := g.fits(scales, s); err != nil {
		return nil, err
	}
	var zeros *safetensors.Tensor
	if s.asymmetric || v.has(name+"_zero_point") {
		z, err := v.partner(name+"_zero_point", safetensors.Int8)
		if err == nil {
			err = g.fits(z, s)
		}
		if err != nil {
			return nil, err
		}
		if err := zeroUnless(s.asymmetric, z); err != nil {
			return nil, err
		}
		zeros = &z
	}
	module := strings.TrimSuffix(name, ".weight")
	v.unused(module+".input_scale", module+".input_zero_point", module+".activation_scale")
	factors := func(matrix, from, to int) ([]float32, []int32, error) {
		scale, err := safetensors.Values[float32](scales)
		if err != nil {
			return nil, nil, err
		}
		zero := make([]int8, len(scale))
		if zeros != nil {
			if zero, err = safetensors.Values[int8](*zeros); err != nil {
				return nil, nil, err
			}
		}
		list, points := make([]float32, (to-from)*g.across), make([]int32, (to-from)*g.across)
		for i := range list {
			at := g.at(matrix, from+i/g.across, i%g.across*g.columns)
			list[i], points[i] = scale[at], int32(zero[at])
		}
		return list, points, nil
	}
	if t.DType == safetensors.Int8 {
		n := &integers{bits: 8, group: func() ([]int, error) { return groups(nil, g.width, g.columns, g.across) }, factors: factors, dynamic: s.dynamic}
		n.codes = func(matrix, from, to int) ([]int32, error) {
			codes, err := rowsOf(t, matrix, from, to)
			if err != nil {
				return nil, err
			}
			return safetensors.Values[int32](codes)
		}
		return n.weight(t.Shape), nil
	}
	return &weight{shape: t.Shape, rows: func(matrix, from, to int) ([]float32, error) {
		codes, err := rowsOf(t, matrix, from, to)
		if err != nil {
			return nil, err
		}
		values, err := safetensors.Values[float32](codes)
		if err != nil {
			return nil, err
		}
		scale, zero, err := factors(matrix, from, to)
		if err != nil {
			return nil, err
		}
		for i := range values {
			at := i/g.width*g.across + i%g.width/g.columns
			values[i] = (values[i] - float32(zero[at])) * scale[at]
		}
		return values, nil
	}}, nil
}

// zeroUnless refuses zero points of a symmetric scheme that are not zero.
func zeroUnless(asymmetric bool, t safetensors.Tensor) error {
	if asymmetric {
		return nil
	}
	zeros, err := safetensors.Values[int8](t)
	for _, z := range zeros {
		if z != 0 {
			return fmt.Errorf("%s has a %d, and config.json's %s says symmetric", t.Name, z, key)
		}
	}
	return err
}

// grid is the scales of the blocks of a weight.
type grid struct {
	matrices, height, width int
	rows, columns           int // of a block
	down, across            int // blocks of a matrix
}

func newGrid(shape []int, s scheme) grid {
	g := grid{matrices: 1, height: shape[len(shape)-2], width: shape[len(shape)-1], rows: s.rows, columns: s.columns}
	if len(shape) == 3 {
		g.matrices = shape[0]
	}
	if g.rows == 0 {
		g.rows = max(g.height, 1)
	}
	if g.columns == 0 {
		g.columns = max(g.width, 1)
	}
	g.down, g.across = (g.height+g.rows-1)/g.rows, (g.width+g.columns-1)/g.columns
	return g
}

func (g grid) at(matrix, row, column int) int {
	return (matrix*g.down+row/g.rows)*g.across + column/g.columns
}

// fits checks a tensor with a number for each block. The one of a whole matrix may have fewer dimensions, and those of rows too.
func (g grid) fits(t safetensors.Tensor, s scheme) error {
	shape := []int{g.down, g.across}
	if g.matrices > 1 || len(t.Shape) == 3 {
		shape = append([]int{g.matrices}, shape...)
	}
	if t.Len() == g.matrices*g.down*g.across && (g.across == 1 && len(t.Shape) < 2 || s.rows == 0 && s.columns == 0) {
		return nil
	}
	return fits(t, shape...)
}

// rowsOf is some rows of a matrix of a tensor.
func rowsOf(t safetensors.Tensor, matrix, from, to int) (safetensors.Tensor, error) {
	if len(t.Shape) == 3 {
		one, err := t.Narrow(0, matrix, 1)
		if err != nil {
			return t, err
		}
		return one.Narrow(1, from, to-from)
	}
	return t.Narrow(0, from, to-from)
}

// packed is a weight of compressed-tensors whose rows are packed into int32 elements from the lowest bits on, each code with half of
// its range added. Zero points are packed likewise, along the rows.
func (v *viewer) packed(name string, t safetensors.Tensor, s scheme) (*weight, error) {
	module := strings.TrimSuffix(name, ".weight")
	sizes, err := v.partner(name+"_shape", safetensors.Int64, safetensors.Int32)
	if err == nil {
		err = fits(sizes, 2)
	}
	if err != nil {
		return nil, err
	}
	shape, err := safetensors.Values[int](sizes)
	if err != nil {
		return nil, err
	}
	if !s.packed {
		return nil, fmt.Errorf("config.json's %s has another format than pack-quantized for the module %s", key, module)
	}
	each := 32 / s.bits
	if t.DType != safetensors.Int32 || len(t.Shape) != 2 || shape[0] != t.Shape[0] || shape[1] < 1 || (shape[1]-1)/each+1 != t.Shape[1] {
		return nil, fmt.Errorf("it is %v; %d bits of %v need int32[%d,%d]", t.Info, s.bits, shape, shape[0], (shape[1]+each-1)/each)
	}
	scales, err := v.partner(name+"_scale", floats...)
	if err != nil {
		return nil, err
	}
	g := newGrid(shape, s)
	if err := g.fits(scales, s); err != nil {
		return nil, err
	}
	var zeros, order *safetensors.Tensor
	if s.asymmetric {
		z, err := v.partner(name+"_zero_point", safetensors.Int32)
		if err == nil {
			err = fits(z, (g.down+each-1)/each, g.across)
		}
		if err != nil {
			return nil, err
		}
		zeros = &z
	} else if v.has(name + "_zero_point") {
		return nil, fmt.Errorf("the folder has %s_zero_point, and config.json's %s says symmetric", name, key)
	}
	if v.has(name + "_g_idx") {
		o, err := v.partner(name+"_g_idx", safetensors.Int32, safetensors.Int64)
		if err == nil {
			err = fits(o, shape[1])
		}
		if err != nil {
			return nil, err
		}
		order = &o
	}
	v.unused(module+".input_scale", module+".input_zero_point")
	mask, half := uint32(1)<<s.bits-1, int32(1)<<(s.bits-1)
	n := &integers{bits: s.bits, half: half, group: func() ([]int, error) { return groups(order, g.width, g.columns, g.across) }}
	n.codes = func(_, from, to int) ([]int32, error) {
		bits, err := words(t, 0, from, to)
		if err != nil {
			return nil, err
		}
		codes := make([]int32, (to-from)*g.width)
		for i := range codes {
			r, c := i/g.width, i%g.width
			codes[i] = int32(bits[r*t.Shape[1]+c/each] >> (c % each * s.bits) & mask)
		}
		return codes, nil
	}
	n.factors = func(_, from, to int) ([]float32, []int32, error) {
		scale, err := safetensors.Values[float32](scales)
		if err != nil {
			return nil, nil, err
		}
		var zero []uint32
		if zeros != nil {
			if zero, err = words(*zeros, 0, 0, zeros.Shape[0]); err != nil {
				return nil, nil, err
			}
		}
		list, points := make([]float32, (to-from)*g.across), make([]int32, (to-from)*g.across)
		for i := range list {
			row, column := (from+i/g.across)/g.rows, i%g.across
			list[i], points[i] = scale[row*g.across+column], half
			if zero != nil {
				points[i] = int32(zero[row/each*g.across+column] >> (row % each * s.bits) & mask)
			}
		}
		return list, points, nil
	}
	return n.weight(shape), nil
}

// groups returns the group of each input: from a tensor, or so many in a row.
func groups(order *safetensors.Tensor, inputs, size, count int) ([]int, error) {
	if order == nil {
		list := make([]int, inputs)
		for i := range list {
			list[i] = i / size
		}
		return list, nil
	}
	list, err := safetensors.Values[int](*order)
	for _, at := range list {
		if at < 0 || at >= count {
			return nil, fmt.Errorf("%s has the group %d of %d", order.Name, at, count)
		}
	}
	return list, err
}

// words reads indices [from, to) of an axis of a matrix of int32 elements.
func words(t safetensors.Tensor, axis, from, to int) ([]uint32, error) {
	part, err := t.Narrow(axis, from, to-from)
	if err != nil {
		return nil, err
	}
	list, err := safetensors.Values[int32](part)
	bits := make([]uint32, len(list))
	for i, w := range list {
		bits[i] = uint32(w)
	}
	return bits, err
}

// transposed is a weight of GPTQ or AWQ, which has a column for each output: codes of inputs, and scales of groups of them.
type transposed struct {
	inputs, outputs, groups int
	codes, scales, zeros    safetensors.Tensor
	order                   *safetensors.Tensor
	size                    int // inputs of a group
}

func (v *viewer) transposed(name string, t safetensors.Tensor, s scheme, inputs, outputs, zeroColumns int) (*transposed, error) {
	module := strings.TrimSuffix(name, ".weight")
	w := &transposed{inputs: inputs, outputs: outputs, groups: 1, codes: t, size: inputs}
	if s.columns > 0 {
		w.size, w.groups = s.columns, (inputs+s.columns-1)/s.columns
	}
	var err error
	if w.scales, err = v.partner(module+".scales", floats...); err == nil {
		err = fits(w.scales, w.groups, outputs)
	}
	if err != nil {
		return nil, err
	}
	if w.zeros, err = v.partner(module+".qzeros", safetensors.Int32); err == nil {
		err = fits(w.zeros, w.groups, zeroColumns)
	}
	if err != nil {
		return nil, err
	}
	if v.c.Method == "gptq" && v.has(module+".g_idx") {
		o, err := v.partner(module+".g_idx", safetensors.Int32)
		if err == nil {
			err = fits(o, inputs)
		}
		if err != nil {
			return nil, err
		}
		w.order = &o
	}
	return w, nil
}

// weight returns the outputs as rows, with functions that find codes of so many bits and zero points in the words.
func (w *transposed) weight(bits int, code func(words []uint32, columns, input, output int) uint32, zero func(words []uint32, columns, group, output int) uint32, perWord int) *weight {
	n := &integers{bits: bits, half: 1 << (bits - 1), group: func() ([]int, error) { return groups(w.order, w.inputs, w.size, w.groups) }}
	n.codes = func(_, from, to int) ([]int32, error) {
		first, last := from, to // columns of the codes
		if perWord > 1 {
			first, last = from/perWord, (to+perWord-1)/perWord
		}
		all, err := words(w.codes, 1, first, last)
		if err != nil {
			return nil, err
		}
		codes := make([]int32, (to-from)*w.inputs)
		for in := range w.inputs {
			for out := from; out < to; out++ {
				codes[(out-from)*w.inputs+in] = int32(code(all, last-first, in, out-first*perWord))
			}
		}
		return codes, nil
	}
	n.factors = func(_, from, to int) ([]float32, []int32, error) {
		all, err := words(w.zeros, 0, 0, w.groups)
		if err != nil {
			return nil, nil, err
		}
		part, err := w.scales.Narrow(1, from, to-from)
		if err != nil {
			return nil, nil, err
		}
		scale, err := safetensors.Values[float32](part)
		if err != nil {
			return nil, nil, err
		}
		list, points := make([]float32, len(scale)), make([]int32, len(scale))
		for i := range list {
			out, g := i/w.groups, i%w.groups
			list[i], points[i] = scale[g*(to-from)+out], int32(zero(all, w.zeros.Shape[1], g, from+out))
		}
		return list, points, nil
	}
	return n.weight([]int{w.outputs, w.inputs})
}

// gptq has the codes of an output as one row of bits in the int32 elements of a column, and the zero points of a group in
// those of a row.
func (v *viewer) gptq(name string, t safetensors.Tensor, s scheme) (*weight, error) {
	if t.DType != safetensors.Int32 || len(t.Shape) != 2 || t.Shape[0]*32%s.bits != 0 {
		return nil, fmt.Errorf("it is %v; codes of %d bits need int32 with two dimensions", t.Info, s.bits)
	}
	inputs, outputs := t.Shape[0]*32/s.bits, t.Shape[1]
	w, err := v.transposed(name, t, s, inputs, outputs, (outputs*s.bits+31)/32)
	if err != nil {
		return nil, err
	}
	mask := uint32(1)<<s.bits - 1
	bits := func(words []uint32, first, step, at int) uint32 { // which may lie in two words
		at *= s.bits
		b := words[first+at/32*step] >> (at % 32)
		if at%32+s.bits > 32 {
			b |= words[first+(at/32+1)*step] << (32 - at%32)
		}
		return b & mask
	}
	less := uint32(0)
	if s.plusOne {
		less = 1
	}
	return w.weight(s.bits, func(words []uint32, columns, input, output int) uint32 {
		return bits(words, output, columns, input)
	}, func(words []uint32, columns, group, output int) uint32 {
		return (bits(words, group*columns, 1, output) + less) & mask
	}, 1), nil
}

// awq has the codes of eight outputs in an int32: those with even numbers in its lower half.
func (v *viewer) awq(name string, t safetensors.Tensor, s scheme) (*weight, error) {
	if t.DType != safetensors.Int32 || len(t.Shape) != 2 {
		return nil, fmt.Errorf("it is %v; codes of 4 bits need int32 with two dimensions", t.Info)
	}
	w, err := v.transposed(name, t, s, t.Shape[0], 8*t.Shape[1], t.Shape[1])
	if err != nil {
		return nil, err
	}
	code := func(words []uint32, columns, row, output int) uint32 {
		place := output % 8 / 2
		if output%2 == 1 {
			place += 4
		}
		return words[row*columns+output/8] >> (4 * place) & 15
	}
	return w.weight(4, code, code, 8), nil
}

// fp4 are the values of the codes of MXFP4, of which the upper half is negative.
var fp4 = [8]float32{0, .5, 1, 1.5, 2, 3, 4, 6}

// mxfp4 has blocks of 32 inputs of an output: two codes in a byte, the lower bits first, and an exponent of two for each block.
// The weight has a row for each input.
func (v *viewer) mxfp4(name string, t safetensors.Tensor, _ scheme) (*weight, error) {
	if t.DType != safetensors.Uint8 || len(t.Shape) != 4 || t.Shape[3] != 16 {
		return nil, fmt.Errorf("it is %v; blocks of MXFP4 are uint8[experts,outputs,blocks,16]", t.Info)
	}
	experts, outputs, blocks := t.Shape[0], t.Shape[1], t.Shape[2]
	exponents, err := v.partner(name+"_scales", safetensors.Uint8)
	if err == nil {
		err = fits(exponents, experts, outputs, blocks)
	}
	if err != nil {
		return nil, err
	}
	return &weight{shape: []int{experts, 32 * blocks, outputs}, rows: func(matrix, from, to int) ([]float32, error) {
		first, last := from/32, (to+31)/32
		part := func(t safetensors.Tensor) ([]uint8, error) {
			one, err := t.Narrow(0, matrix, 1)
			if err != nil {
				return nil, err
			}
			if one, err = one.Narrow(2, first, last-first); err != nil {
				return nil, err
			}
			return one.Bytes()
		}
		codes, err := part(t)
		if err != nil {
			return nil, err
		}
		powers, err := part(exponents)
		if err != nil {
			return nil, err
		}
		values := make([]float32, (to-from)*outputs)
		for out := range outputs {
			for in := from; in < to; in++ {
				block := out*(last-first) + in/32 - first
				power := powers[block]
				if power == math.MaxUint8 {
					return nil, fmt.Errorf("%s has an exponent that is no number", exponents.Name)
				}
				code := codes[block*16+in%32/2] >> (in % 2 * 4) & 15
				x := fp4[code&7]
				if code > 7 {
					x = -x
				}
				values[(in-from)*outputs+out] = float32(math.Ldexp(float64(x), int(power)-127))
			}
		}
		return values, nil
	}}, nil
}
