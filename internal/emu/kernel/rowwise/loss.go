package rowwise

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Averaging determines how the losses of the rows are reduced.
type Averaging int

// Averaging modes. Mean divides by the sum of the weights of the rows that are not ignored.
const (
	NoAveraging Averaging = iota
	MeanAveraging
	SumAveraging
)

// CrossEntropy describes the loss −Σ target distribution · log-probability over the classes.
type CrossEntropy struct {
	Targets   []int64
	Ignore    int64     // rows with this target are ignored
	Weights   []float32 // per class, nil for ones
	Smoothing float64   // share of the target distribution that is spread over all classes
	Averaging Averaging
}

func (e *CrossEntropy) weight(class int64) float64 {
	if e.Weights == nil {
		return 1
	}
	return float64(e.Weights[class])
}

func (e *CrossEntropy) check(classes int64) error {
	for i, k := range e.Targets {
		if k != e.Ignore && (k < 0 || k >= classes) {
			return fmt.Errorf("target %d of row %d is out of range for %d classes", k, i, classes)
		}
	}
	return nil
}

// total returns the sum of the weights of the rows that are not ignored.
func (e *CrossEntropy) total() (sum float64) {
	for _, k := range e.Targets {
		if k != e.Ignore {
			sum += e.weight(k)
		}
	}
	return sum
}

// Forward computes the log-probabilities of x [rows, classes] and the loss, which is [rows]
// without averaging and else one element. The mean over zero rows is NaN, as in PyTorch.
func (e *CrossEntropy) Forward(loss, logProb, x kernel.View) error {
	logs := logProb
	if logs.DType != dtype.Float32 || !logs.Contiguous() {
		var release func()
		logs, release = kernel.TemporaryOf(dtype.Float32, x.Shape...)
		defer release()
	}
	if err := LogSoftmax(logs, x, 1); err != nil {
		return err
	}
	if logs.Data != logProb.Data {
		if err := elementwise.Copy(logProb, logs); err != nil {
			return err
		}
	}
	return e.average(loss, logs)
}

// average computes the loss from contiguous fp32 log-probabilities.
func (e *CrossEntropy) average(loss, logs kernel.View) error {
	classes := logs.Shape[1]
	if err := e.check(classes); err != nil {
		return err
	}
	p := unsafe.Slice((*float32)(logs.Data), logs.Len())
	losses := make([]float64, len(e.Targets))
	sum := 0.0
	for i, k := range e.Targets {
		if k == e.Ignore {
			continue
		}
		row := p[int64(i)*classes:][:classes]
		losses[i] = -(1 - e.Smoothing) * e.weight(k) * float64(row[k])
		if e.Smoothing > 0 {
			all := 0.0
			for c, l := range row {
				all += e.weight(int64(c)) * float64(l)
			}
			losses[i] -= e.Smoothing / float64(classes) * all
		}
		sum += losses[i]
	}
	if e.Averaging == NoAveraging {
		return elementwise.SetFloats(loss, losses)
	}
	if e.Averaging == MeanAveraging {
		sum /= e.total()
	}
	return elementwise.Fill(loss, elementwise.Real(sum))
}

// Backward computes the gradient of x from the log-probabilities of Forward and the gradient of
// the loss, which has one element or one per row.
func (e *CrossEntropy) Backward(dx, gradLoss, logProb kernel.View) error {
	rows, classes := logProb.Shape[0], logProb.Shape[1]
	if err := e.check(classes); err != nil {
		return err
	}
	grads, release := kernel.TemporaryOf(dtype.Float32, gradLoss.Len())
	defer release()
	if err := elementwise.Copy(grads, kernel.View{Data: gradLoss.Data, DType: gradLoss.DType, Shape: grads.Shape, Strides: flatStrides(gradLoss)}); err != nil {
		return err
	}
	g := unsafe.Slice((*float32)(grads.Data), grads.Len())
	all := 0.0
	for c := range classes {
		all += e.weight(c)
	}
	// dx = scale·(p·mass − target distribution), where mass is the sum of the row's distribution.
	total := e.total()
	scale, mass := make([]float64, rows), make([]float64, rows)
	for i, k := range e.Targets {
		if k == e.Ignore {
			continue
		}
		scale[i] = float64(g[min(i, len(g)-1)])
		if e.Averaging == MeanAveraging {
			scale[i] /= total
		}
		mass[i] = (1-e.Smoothing)*e.weight(k) + e.Smoothing/float64(classes)*all
	}
	parts := elementwise.NewPieces(logProb.Shape, 1, []kernel.View{dx}, logProb)
	return parts.Run(func(k int64, of func(kernel.View) kernel.View) error {
		from := k * parts.Each
		logProb := of(logProb)
		return e.rows(of(dx), logProb, e.Targets[from:][:logProb.Shape[0]], scale[from:], mass[from:])
	})
}

// rows computes the gradients of a few rows, which are scale·(exp(logProb)·mass − target distribution).
func (e *CrossEntropy) rows(dx, logProb kernel.View, targets []int64, scale, mass []float64) error {
	rows, classes := logProb.Shape[0], logProb.Shape[1]
	c := NewChain(logProb)
	p := c.Temp(logProb.Shape)
	factor := c.Temp([]int64{rows, 1})
	for i := range rows {
		SetFloat(factor, i, scale[i]*mass[i])
	}
	c.Set(p, elementwise.Exp, nil, elementwise.Of(logProb))
	c.Mul(p, p, factor)
	for i, k := range targets {
		if c.Err != nil || scale[i] == 0 {
			continue
		}
		row := int64(i) * classes
		if e.Smoothing > 0 {
			for j := range classes {
				addFloat(p, row+j, -scale[i]*e.Smoothing/float64(classes)*e.weight(j))
			}
		}
		addFloat(p, row+k, -scale[i]*(1-e.Smoothing)*e.weight(k))
	}
	c.Set(dx, elementwise.Identity, nil, elementwise.Of(p))
	return c.End()
}

// flatStrides returns the stride of a contiguous or one-element view as a vector.
func flatStrides(v kernel.View) []int64 {
	if len(v.Shape) == 1 {
		return v.Strides
	}
	return []int64{1}
}

// SetFloat and addFloat change an element of a contiguous temporary.
func SetFloat(v kernel.View, i int64, x float64) {
	if v.DType == dtype.Float64 {
		*(*float64)(unsafe.Add(v.Data, 8*i)) = x
	} else {
		*(*float32)(unsafe.Add(v.Data, 4*i)) = float32(x)
	}
}

func addFloat(v kernel.View, i int64, x float64) {
	if v.DType == dtype.Float64 {
		*(*float64)(unsafe.Add(v.Data, 8*i)) += x
	} else {
		*(*float32)(unsafe.Add(v.Data, 4*i)) += float32(x)
	}
}
