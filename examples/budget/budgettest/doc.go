// Package budgettest measures whether the work for a stranger's input is bounded, in time of the processor and in memory, which
// do not depend on what else the machine does.
package budgettest
