package gating

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// sinkhornRounds is the maximum number of iterations. A hundred suffice for reasonable costs.
const sinkhornRounds = 1 << 20

// Sinkhorn sets out to exp(cost) with rows and columns scaled alternately, until the column
// scales change by at most tolerance on average. The result distributes the rows evenly over the
// columns (Sinkhorn's algorithm). It fails if the scales do not converge.
func Sinkhorn(out, cost kernel.View, tolerance float64) error {
	const epsilon = 1e-8
	p, err := elementwise.Doubles(cost)
	if err != nil || len(p) == 0 {
		return err
	}
	rows, cols := int(cost.Shape[0]), int(cost.Shape[1])
	row, col, last := make([]float64, rows), make([]float64, cols), make([]float64, cols)
	for i := range p {
		p[i] = math.Exp(p[i])
	}
	for j := range col {
		col[j] = 1
	}
	for round := 0; ; round++ {
		if round == sinkhornRounds {
			return fmt.Errorf("gating: costs of shape %v do not settle to %g in %d rounds", cost.Shape, tolerance, round)
		}
		copy(last, col)
		for i := range row {
			sum := 0.0
			for j, c := range col {
				sum += c * p[i*cols+j]
			}
			row[i] = 1 / (float64(rows) * (sum + epsilon))
		}
		change := 0.0
		for j := range col {
			sum := 0.0
			for i, r := range row {
				sum += r * p[i*cols+j]
			}
			col[j] = 1 / (float64(cols) * (sum + epsilon))
			change += math.Abs(last[j]-col[j]) / float64(cols)
		}
		if !(change > tolerance) {
			break
		}
	}
	for i, r := range row {
		for j, c := range col {
			p[i*cols+j] *= r * c
		}
	}
	return elementwise.SetFloats(out, p)
}
