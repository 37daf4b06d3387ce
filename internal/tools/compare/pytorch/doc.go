// Command pytorch computes products and attention for compare.py, which lets PyTorch and the
// emulator's kernels compute in alternation on the same cores. It reads a case as a line of JSON, and answers with the seconds
// of one call, the best of a turn.
package main
