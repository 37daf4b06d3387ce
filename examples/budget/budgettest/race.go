//go:build race

package budgettest

// slower is what the race detector costs.
const slower = 10
