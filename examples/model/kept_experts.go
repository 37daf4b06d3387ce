package model

import (
	"context"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/quantization"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// keepExperts copies the codes of a weight of experts to the device, an expert at a time, so that the host never has those of a whole layer. It says why if no grouped product
// of this CANN reads them. Inputs stay in 16 bits, also where the folder's own products take int8. zeros are offsets of other weights, by their shape.
func (m *Model) keepExperts(ctx context.Context, w *Parameter, q *quantized, parts []codedPart, codes map[string]quantization.Codes, zeros map[string]*aclnn.Tensor) (kept *quantized, why string, err error) {
	shape := w.local()
	experts, outputs, groups := shape[0], shape[1], q.inputs/q.group
	if q.bits == 4 && outputs%8 != 0 {
		return nil, "their outputs are no multiple of 8, so many as an int32 of codes has", nil
	}
	s := &m.quantized
	if q.bits == 8 {
		q.values = s.Tensor(aclnn.Int8, experts, outputs, q.inputs)
	} else {
		q.values = s.Tensor(aclnn.Int32, experts, q.inputs, outputs/8)
	}
	of := []int64{experts, outputs}
	if groups > 1 {
		of = []int64{experts, groups, outputs}
	}
	if q.scales = s.Tensor(m.dt, of...); s.Err() != nil {
		return nil, "", s.Err()
	}
	q.outputs, q.dynamic = outputs, false
	kernel, why, err := m.groupedKernel(q)
	if err != nil || why != "" {
		s.Free(q.values, q.scales)
		return nil, why, err
	}
	q.how = fmt.Sprintf("of experts in int%d with inputs in %v (W%dA16, %s)", q.bits, m.dt, q.bits, kernel)
	each := len(parts) / int(experts)
	var scales, offsets []float32
	for e := range experts {
		if err := q.read(parts[int(e)*each:][:each], codes); err != nil {
			return nil, "", err
		}
		to := q.values.Select(0, e)
		if q.bits == 8 {
			s.Do(func() error { return aclnn.CopyToDevice(ctx, m.st, to, q.codes) })
		} else {
			s.Do(func() error { return aclnn.CopyToDevice(ctx, m.st, to, packed(q.codes, q.inputs)) })
		}
		scales = append(scales, transposed(q.factors, int(outputs), int(groups))...)
		offsets = append(offsets, transposed(q.shifts, int(outputs), int(groups))...)
	}
	s.Do(func() error { return toDevice(ctx, m.st, q.scales, scales) })
	q.shifts = offsets
	switch shape := fmt.Sprint(of); {
	case q.shifted():
		q.offsets = s.Tensor(m.dt, of...)
		s.Do(func() error { return toDevice(ctx, m.st, q.offsets, offsets) })
	case zeros[shape] != nil:
		q.offsets = zeros[shape]
	default:
		q.offsets = s.Tensor(m.dt, of...)
		s.Zero(q.offsets)
		zeros[shape] = q.offsets
	}
	q.codes, q.factors, q.shifts = nil, nil, nil
	return q, "", s.Err()
}

// grouped returns the arguments of a grouped product that stand for the codes.
func (q *quantized) grouped() ops.WeightQuantGroupedMatmulArgs {
	a := ops.WeightQuantGroupedMatmulArgs{Weight: q.values, Scale: q.scales, Offset: q.offsets}
	if q.bits == 8 {
		a.Weight = transpose(q.values)
	}
	return a
}

// groupedKernel names the grouped product that reads codes, or says why there is none: weights that would be dequantised in each call are dequantised once.
func (m *Model) groupedKernel(q *quantized) (kernel, why string, err error) {
	err = aclnn.Compose(m.st, func(s *aclnn.Scope) {
		a := q.grouped()
		a.X, a.Out, a.Groups.Device = s.Tensor(m.dt, 1, q.inputs), s.Tensor(m.dt, 1, q.outputs), s.Tensor(aclnn.Int32, q.values.Dim(0))
		if s.Err() != nil {
			return
		}
		e := m.reg.WeightQuantGroupedMatmul().Explain(&a)
		s.Fail(e.Invalid)
		if kernel = e.Kernel; kernel == ops.Dequantised || kernel == "" {
			why = e.String()
		}
	})
	return kernel, why, err
}

// product multiplies rows of experts by a weight or by its codes.
func (f experts) product(p *pass, w *Parameter, rows *autograd.Var, groups autograd.Groups) *autograd.Var {
	if w.coded() {
		return p.WeightQuantGroupedMatmul(rows, nil, groups, w.quantized.grouped())
	}
	return p.GroupedMatmul(rows, f.weight(p, w), nil, groups)
}
