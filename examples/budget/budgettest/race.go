//go:build race

package budgettest

// slower is how many times longer code takes under the race detector.
const slower = 10
