package nn

import (
	"cmp"
	"math"
	"slices"
)

// ascending are the places of a row by value, equal ones in order.
func ascending(row []float64) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(row[i], row[j]) })
	return order
}

// keepLargest makes all logits of a row -Inf that are below the k-th largest; k outside the
// row keeps all.
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

// keepProbable makes the least probable logits of a row -Inf, as long as their
// probabilities add up to no more than 1 - p; the last one stays.
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
