package random

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// ascending returns the positions of the elements of a row in a stable order by value.
func ascending(row []float64) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(row[i], row[j]) })
	return order
}

// keepLargest sets all logits of a row below the k-th largest to -Inf. If k is outside the row,
// it keeps all.
func keepLargest(row []float64, k int64) {
	if k <= 0 || k >= int64(len(row)) {
		return
	}
	least := row[ascending(row)[int64(len(row))-k]]
	for i, v := range row {
		if v < least {
			row[i] = math.Inf(-1)
		}
	}
}

// keepProbable sets the least probable logits of a row to -Inf, as long as their probabilities
// sum to at most 1 - p. The most probable logit is always kept.
func keepProbable(row []float64, p float64) {
	order := ascending(row)
	most, total := row[order[len(order)-1]], 0.0
	for _, v := range row {
		total += math.Exp(v - most)
	}
	sum := 0.0
	for _, i := range order[:len(order)-1] {
		if sum += math.Exp(row[i]-most) / total; sum > 1-p {
			break
		}
		row[i] = math.Inf(-1)
	}
}

// topKTopP keeps the k largest logits of each row and, of these, the most probable whose
// probabilities sum to p. The others become -Inf. If k is outside the row, top-k keeps all.
func topKTopP(c *op.Call) (op.Run, error) {
	logits, p, k, out := c.Tensor("logits"), c.Optional("p"), c.Optional("k"), c.Tensor("out")
	c.Plain(logits, out)
	c.DType(logits, op.FloatTypes...)
	c.Same(logits, out)
	c.Rank(logits, 2, 2)
	if c.Err() == nil {
		if p != nil {
			c.SameDType(logits, p)
			c.Shape(p, logits.Shape[:1], "one for each row")
		}
		if k != nil {
			c.DType(k, dtype.Int32)
			c.Shape(k, logits.Shape[:1], "one for each row")
		}
		if p == nil && k == nil {
			c.Fail(op.NullPointer, "p and k are null; one of them must limit what is kept")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if logits.Len() == 0 {
			return nil
		}
		rows, err := elementwise.Doubles(logits.View())
		if err != nil {
			return err
		}
		var most []int64
		if k != nil {
			if most, err = elementwise.Indices(k.View()); err != nil {
				return err
			}
		}
		var mass []float64
		if p != nil {
			if mass, err = elementwise.Doubles(p.View()); err != nil {
				return err
			}
		}
		width := int(logits.Shape[1])
		for r := range int(logits.Shape[0]) {
			row := rows[r*width:][:width]
			if k != nil {
				keepLargest(row, most[r])
			}
			if p != nil {
				keepProbable(row, mass[r])
			}
		}
		return elementwise.SetFloats(out.View(), rows)
	}, nil
}
