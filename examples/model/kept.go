package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	zeros := map[string]*aclnn.Tensor{}
	for _, w := range m.codable() {
		parts, names := m.codedParts(w, codes, reasons), map[string]bool{}
		for _, p := range parts {
			names[p.name], read[p.name] = true, true
		}
		q, reason, err := form(parts, codes)
		switch {
		case q == nil || err != nil:
		case w.expert:
			q, reason, err = m.keepExperts(ctx, w, q, parts, codes, zeros)
		default:
			if q, reason, err = m.join(q, parts, codes); q != nil {
				err = q.upload(ctx, m)
			}
		}
		if err != nil {
			return fmt.Errorf("model: %v: %w", w, err)
		}
		if w.quantized = q; q != nil {
			m.kept[q.how] += len(names)
			continue
		}
		for _, p := range parts {
			if text := reasons[p.name]; text != "" {
				reason = text
				break
			}
		}
		m.kept["dequantised: "+reason] += len(names)
		if err := m.store.(*replicated).hold(w); err != nil {
			return err
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
	switch {
	case p == nil:
		return ""
	case strings.Contains(name, ".experts."):
		return "experts of this family, whose products read no codes"
	case p.absorbed:
		return "attention to latents reads the weight itself"
	}
	return "gates, embedding and head stay in 16 bits"
}

// Kept says how products read the weights of a folder that Config.KeepCodes has kept, and how many weights each way has: the operators of CANN, or why
// weights were dequantised.
func (m *Model) Kept() (lines []string) {
	for _, how := range slices.Sorted(maps.Keys(m.kept)) {
		lines = append(lines, fmt.Sprintf("%d weights %s", m.kept[how], how))
	}
	return lines
}

// codable lists the weights that may be kept as codes: those of Quantize, and those of experts.
func (m *Model) codable() []*Parameter {
	all := m.narrowable()
	for _, w := range m.params.all {
		if w.expert {
			all = append(all, w)
		}
	}
	return all
}

// codedPart is a tensor of the folder, or one expert of it, and what this rank has of it.
type codedPart struct {
	name            string
	outputs, inputs int64              // of the whole tensor
	rows            []checkpoint.Range // of outputs
	columns         checkpoint.Range   // of inputs
	ranks           int64              // that share the inputs
}

// codedParts lists the tensors of a weight: itself, those of a stack, or those of this rank's experts.
func (m *Model) codedParts(w *Parameter, codes map[string]quantization.Codes, reasons map[string]string) (parts []codedPart) {
	if !w.expert {
		for _, q := range m.params.all {
			if q == w || q.stack == w {
				p := codedPart{name: q.Name, outputs: q.shape[0], inputs: q.shape[1], rows: q.rows(), columns: checkpoint.Range{To: q.shape[1]}, ranks: q.spread.Of}
				if q.spread.Of > 0 && q.spread.Axis == 1 {
					p.columns = q.spread.Ranges(q.shape[1])[0]
				}
				parts = append(parts, p)
			}
		}
		return parts
	}
	cut, inputs := w.spread.inner, w.shape[2]
	columns, ranks := checkpoint.Range{To: inputs}, cut.Of
	if cut.Axis == 2 {
		columns = cut.Ranges(inputs)[0]
		cut = checkpoint.Cut{}
	}
	own := w.spread.Ranges(w.shape[0])[0]
	if _, whole := codes[w.Name]; whole || reasons[w.Name] != "" { // a tensor with the matrices of all experts
		for e := own.From; e < own.To; e++ {
			p := codedPart{name: w.Name, outputs: w.shape[0] * w.shape[1], inputs: inputs, columns: columns, ranks: ranks}
			for _, r := range cut.Ranges(w.shape[1]) {
				p.rows = append(p.rows, checkpoint.Range{From: e*w.shape[1] + r.From, To: e*w.shape[1] + r.To})
			}
			parts = append(parts, p)
		}
		return parts
	}
	prefix, projections := expertParts(w.Name)
	outputs := w.shape[1] / int64(len(projections))
	cut.Blocks = nil // of one projection
	for e := own.From; e < own.To; e++ {
		for _, projection := range projections {
			parts = append(parts, codedPart{expertTensor(prefix, e, projection), outputs, inputs, cut.Ranges(outputs), columns, ranks})
		}
	}
	return parts
}

// form finds what the codes of the parts of a weight have in common, or says why they have no product.
func form(parts []codedPart, codes map[string]quantization.Codes) (q *quantized, why string, err error) {
	for i, p := range parts {
		c, ok := codes[p.name]
		if !ok {
			return nil, "the folder has them in plain form", nil
		}
		if int64(c.Outputs) != p.outputs || int64(c.Inputs) != p.inputs {
			return nil, "", fmt.Errorf("%s has shape [%d %d] in the folder, the model needs [%d %d]", p.name, c.Outputs, c.Inputs, p.outputs, p.inputs)
		}
		first, inputs := p.columns.From, p.columns.To-p.columns.From
		group := min(int64(c.Group), inputs)
		inside := first/int64(c.Group) == (p.columns.To-1)/int64(c.Group) // one group has all of them
		if c.Group < c.Inputs && !inside && (first%group != 0 || inputs%group != 0) {
			if p.ranks > 1 {
				return nil, fmt.Sprintf("%d ranks would share groups of %d inputs", p.ranks, c.Group), nil
			}
			return nil, fmt.Sprintf("the last group has fewer inputs than the %d of the others", c.Group), nil
		}
		if i > 0 && (group != q.group || inputs != q.inputs || c.Bits != q.bits || c.Dynamic != q.dynamic) {
			return nil, "the projections of a product have several forms", nil
		}
		if i == 0 {
			q = &quantized{group: group, inputs: inputs, bits: c.Bits, dynamic: c.Dynamic}
		}
		for _, r := range p.rows {
			q.outputs += r.To - r.From
		}
	}
	return q, "", nil
}

// read collects this rank's codes of parts, with scales and offsets, row by row.
func (q *quantized) read(parts []codedPart, codes map[string]quantization.Codes) error {
	q.codes, q.factors, q.shifts = q.codes[:0], q.factors[:0], q.shifts[:0]
	for _, p := range parts {
		c := codes[p.name]
		for _, rows := range p.rows {
			all, scales, offsets, err := c.Read(int(rows.From), int(rows.To))
			if err != nil {
				return err
			}
			count := int(rows.To - rows.From)
			groups := len(scales) / max(count, 1)
			from, to := 0, groups
			if c.Group < c.Inputs {
				from, to = int(p.columns.From)/c.Group, int(p.columns.To-1)/c.Group+1
			}
			for r := range count {
				q.codes = append(q.codes, all[r*c.Inputs+int(p.columns.From):r*c.Inputs+int(p.columns.To)]...)
				q.factors = append(q.factors, scales[r*groups+from:r*groups+to]...)
				q.shifts = append(q.shifts, offsets[r*groups+from:r*groups+to]...)
			}
		}
	}
	return nil
}

// shifted reports whether some offset is not zero.
func (q *quantized) shifted() bool {
	return slices.ContainsFunc(q.shifts, func(x float32) bool { return x != 0 })
}

// join reads the codes of a linear layer and chooses its product, or says why there is none.
func (m *Model) join(q *quantized, parts []codedPart, codes map[string]quantization.Codes) (*quantized, string, error) {
	if err := q.read(parts, codes); err != nil {
		return nil, "", err
	}
	switch {
	case q.bits == 8 && q.dynamic && q.group == q.inputs && !q.shifted():
		q.how = "in int8 with inputs in int8 (W8A8, DynamicQuant and QuantMatmulV4)"
	case q.bits == 4 && q.outputs%8 != 0:
		return nil, "their outputs are no multiple of 8, so many as an int32 of codes has", nil
	case q.group < q.inputs && q.group%32 != 0:
		return nil, fmt.Sprintf("a scale for %d inputs; WeightQuantBatchMatmulV2 takes multiples of 32", q.group), nil
	default:
		q.dynamic = false
		q.how = fmt.Sprintf("in int%d with inputs in %v (W%dA16, WeightQuantBatchMatmulV2)", q.bits, m.dt, q.bits)
	}
	if !q.shifted() {
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
		q.values = s.Tensor(aclnn.Int32, q.inputs, q.outputs/8)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, m.st, q.values, packed(q.codes, q.inputs)) })
	}
	if q.dynamic {
		q.scales = copied(s.Tensor(aclnn.Float32, q.outputs), q.factors)
	} else {
		q.scales = copied(s.Tensor(m.dt, groups, q.outputs), transposed(q.factors, int(q.outputs), int(groups)))
		if q.shifts != nil {
			q.offsets = copied(s.Tensor(m.dt, groups, q.outputs), transposed(q.shifts, int(q.outputs), int(groups)))
		}
	}
	q.codes, q.factors, q.shifts = nil, nil, nil
	return s.Err()
}

// packed returns codes of int4 with a row for each input, eight outputs in an int32, from codes with a row for each output.
func packed(codes []int8, inputs int64) []int32 {
	outputs := int64(len(codes)) / inputs
	words := make([]int32, len(codes)/8)
	for o := range outputs {
		for i := range inputs {
			words[(i*outputs+o)/8] |= int32(uint32(codes[o*inputs+i]&15) << (o % 8 * 4))
		}
	}
	return words
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
