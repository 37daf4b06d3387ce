package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/quantization"
	"github.com/goascend/cann/ops/autograd"
)

// checkKept refuses models whose products cannot read codes.
func (m *Model) checkKept() error {
	switch {
	case !m.Config.KeepCodes:
		return nil
	case m.Config.Quantization == nil:
		return errors.New("model: KeepCodes needs a folder with quantised weights, a quantization_config in its config.json")
	case !m.Config.Frozen || m.dt == aclnn.Float32 || m.par.Shard || m.par.DistributedOptimizer:
		return errors.New("model: KeepCodes needs Config.Frozen and a dtype of 16 bits, without Shard or DistributedOptimizer: products of codes have 16-bit inputs and no gradients")
	case m.Config.Quantization.Method == "fp8" || m.Config.Quantization.Method == "mxfp4":
		return fmt.Errorf("model: KeepCodes of a folder of %s: %s has no products of 8-bit or 4-bit floats; let its weights be dequantised", m.Config.Quantization.Method, m.st.Device().Runtime().SoC())
	}
	return nil
}

// keep uploads the codes of the weights that products can read in this form, and makes room for the others.
func (m *Model) keep(ctx context.Context, f *safetensors.File) error {
	found, why, err := m.Config.Quantization.Codes(f)
	if err != nil {
		return err
	}
	codes, reasons := map[string]quantization.Codes{}, map[string]string{}
	for name, c := range found {
		codes[m.Config.family().canonical(name)] = c
	}
	for name, text := range why {
		reasons[m.Config.family().canonical(name)] = text
	}
	if m.quantized.Stream == nil {
		m.quantized = aclnn.Scope{Stream: m.st}
	}
	m.kept = map[string]int{}
	read := map[string]bool{}
	for _, w := range m.narrowable() {
		var parts []*Parameter
		for _, q := range m.params.all {
			if q == w || q.stack == w {
				parts = append(parts, q)
				read[q.Name] = true
			}
		}
		q, reason, err := m.join(parts, codes)
		if err != nil {
			return fmt.Errorf("model: %v: %w", w, err)
		}
		if q == nil {
			if text := reasons[parts[0].Name]; text != "" {
				reason = text
			}
			m.kept["dequantised: "+reason] += len(parts)
			if err := m.store.(*replicated).hold(w); err != nil {
				return err
			}
			continue
		}
		m.kept[q.how] += len(parts)
		w.quantized = q
		if err := q.upload(ctx, m); err != nil {
			return fmt.Errorf("model: %v: %w", w, err)
		}
	}
	weights := make(map[string]*Parameter, len(m.params.all))
	for _, p := range m.params.all {
		weights[p.Name] = p
	}
	for name := range codes {
		if read[name] {
			continue
		}
		if reason := unkept(name, weights); reason != "" {
			m.kept["dequantised: "+reason]++
		}
	}
	return m.st.Synchronize(ctx)
}

// unkept says why the layer of a weight reads no codes; it is empty for a weight that this rank does not have, such as one of another rank's experts. weights are those of this rank by name.
func unkept(name string, weights map[string]*Parameter) string {
	p := weights[name]
	if p == nil {
		if p = weights[stacked(name)]; p == nil || !p.hasExpert(name) {
			return ""
		}
	}
	switch {
	case p.expert:
		return "experts, whose grouped products of this package read no codes"
	case p.absorbed:
		return "attention to latents reads the weight itself"
	}
	return "gates, embedding and head stay in 16 bits"
}

// hasExpert reports whether this rank's part of a weight of all experts has the one whose tensor a folder names so.
func (p *Parameter) hasExpert(name string) bool {
	_, rest, _ := strings.Cut(name, ".experts.")
	number, _, _ := strings.Cut(rest, ".")
	at, err := strconv.ParseInt(number, 10, 64)
	return err == nil && p.expert && slices.ContainsFunc(p.rows(), func(r checkpoint.Range) bool { return r.From <= at && at < r.To })
}

// Kept says how products read the weights of a folder that Config.KeepCodes has kept, and how many weights each way has: the operators of CANN, or why
// weights were dequantised.
func (m *Model) Kept() (lines []string) {
	for _, how := range slices.Sorted(maps.Keys(m.kept)) {
		lines = append(lines, fmt.Sprintf("%d weights %s", m.kept[how], how))
	}
	return lines
}

// join collects this rank's codes of the parts of a weight, or says why they have no product.
func (m *Model) join(parts []*Parameter, codes map[string]quantization.Codes) (q *quantized, why string, err error) {
	q = &quantized{}
	for i, p := range parts {
		c, ok := codes[p.Name]
		if !ok {
			return nil, "the folder has them in plain form", nil
		}
		if int64(c.Outputs) != p.shape[0] || int64(c.Inputs) != p.shape[1] {
			return nil, "", fmt.Errorf("%s has shape [%d %d] in the folder, the model needs %v", p.Name, c.Outputs, c.Inputs, p.shape)
		}
		first, end := int64(0), p.shape[1] // inputs of this rank
		if p.spread.Of > 0 && p.spread.Axis == 1 {
			own := p.spread.Ranges(end)[0]
			first, end = own.From, own.To
		}
		group := min(int64(c.Group), end-first)
		if c.Group < c.Inputs && (first%group != 0 || (end-first)%group != 0) {
			return nil, fmt.Sprintf("%d ranks would share groups of %d inputs", p.spread.Of, c.Group), nil
		}
		if i > 0 && (group != q.group || end-first != q.inputs || c.Bits != q.bits || c.Dynamic != q.dynamic) {
			return nil, "the gate and the up projection have other forms", nil
		}
		q.group, q.inputs, q.bits, q.dynamic = group, end-first, c.Bits, c.Dynamic
		for _, rows := range p.rows() {
			all, scales, offsets, err := c.Read(int(rows.From), int(rows.To))
			if err != nil {
				return nil, "", err
			}
			count := int(rows.To - rows.From)
			groups := len(scales) / count
			for r := range count {
				q.codes = append(q.codes, all[r*c.Inputs+int(first):r*c.Inputs+int(end)]...)
				from, to := 0, groups
				if c.Group < c.Inputs {
					from, to = int(first/group), int((end-1)/group)+1
				}
				q.factors = append(q.factors, scales[r*groups+from:r*groups+to]...)
				q.shifts = append(q.shifts, offsets[r*groups+from:r*groups+to]...)
			}
		}
	}
	q.outputs = int64(len(q.codes)) / q.inputs
	shifted := slices.ContainsFunc(q.shifts, func(x float32) bool { return x != 0 })
	switch {
	case q.bits == 8 && q.dynamic && q.group == q.inputs && !shifted:
		q.how = "in int8 with inputs in int8 (W8A8, DynamicQuant and QuantMatmulV4)"
	case q.bits == 4 && q.outputs%8 != 0:
		return nil, "their outputs are no multiple of 8, so many as an int32 of codes has", nil
	case q.group < q.inputs && q.group%32 != 0:
		return nil, fmt.Sprintf("a scale for %d inputs; WeightQuantBatchMatmulV2 takes multiples of 32", q.group), nil
	default:
		q.dynamic = false
		q.how = fmt.Sprintf("in int%d with inputs in %v (W%dA16, WeightQuantBatchMatmulV2)", q.bits, m.dt, q.bits)
	}
	if !shifted {
		q.shifts = nil
	}
	return q, "", nil
}

// rows are the ranges of rows of the whole weight that this rank has.
func (p *Parameter) rows() []checkpoint.Range {
	if p.spread.Axis != 0 {
		return []checkpoint.Range{{To: p.shape[0]}}
	}
	return p.spread.Ranges(p.shape[0])
}

// upload copies codes, scales and offsets to the device. WeightQuantBatchMatmulV2 has a row for each input: codes of eight bits are read as a transposed
// view, and eight codes of four bits share an int32.
func (q *quantized) upload(ctx context.Context, m *Model) error {
	s := &m.quantized
	groups := int64(len(q.factors)) / q.outputs
	copied := func(t *aclnn.Tensor, values []float32) *aclnn.Tensor {
		s.Do(func() error { return toDevice(ctx, m.st, t, values) })
		return t
	}
	if q.bits == 8 {
		q.values = s.Tensor(aclnn.Int8, q.outputs, q.inputs)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, m.st, q.values, q.codes) })
	} else {
		packed := make([]int32, q.inputs*q.outputs/8)
		for o := range q.outputs {
			for i := range q.inputs {
				packed[(i*q.outputs+o)/8] |= int32(uint32(q.codes[o*q.inputs+i]&15) << (o % 8 * 4))
			}
		}
		q.values = s.Tensor(aclnn.Int32, q.inputs, q.outputs/8)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, m.st, q.values, packed) })
	}
	if q.dynamic {
		q.scales = copied(s.Tensor(aclnn.Float32, q.outputs), q.factors)
	} else {
		q.scales = copied(s.Tensor(m.dt, groups, q.outputs), turned(q.factors, groups))
		if q.shifts != nil {
			q.offsets = copied(s.Tensor(m.dt, groups, q.outputs), turned(q.shifts, groups))
		}
	}
	q.codes, q.factors, q.shifts = nil, nil, nil
	return s.Err()
}

// turned transposes a matrix of so many columns.
func turned(values []float32, columns int64) []float32 {
	rows := int64(len(values)) / columns
	out := make([]float32, len(values))
	for i := range values {
		out[int64(i)%columns*rows+int64(i)/columns] = values[i]
	}
	return out
}

// product returns x·weightᵀ with x in 16 bits. It has no gradient.
func (q *quantized) product(p *pass, x *autograd.Var) *autograd.Var {
	return p.Record("product with codes", []*autograd.Var{x}, func(c *autograd.Call) {
		shape := x.Shape()
		shape[len(shape)-1] = q.outputs
		y := c.Output(p.dt, shape...)
		a := aclnn.WeightQuantBatchMatmulV2Params{X: x.Value.Reshape(-1, q.inputs), Weight: q.values, AntiquantScale: q.scales, AntiquantOffset: q.offsets, Y: y.Reshape(-1, q.outputs)}
		if q.bits == 8 {
			a.Weight = q.values.Transpose(0, 1)
		}
		if q.group < q.inputs {
			a.AntiquantGroupSize = int32(q.group)
		}
		c.Do(func() error { return aclnn.WeightQuantBatchMatmulV2(p.Stream(), a) })
	})[0]
}
