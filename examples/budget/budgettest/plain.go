//go:build !race

package budgettest

const slower = 1
