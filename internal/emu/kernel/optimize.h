/* Options that every variant's kernels are compiled with; cgo refuses most on the command line. sqrt and comparisons need
 * not set errno or raise flags; otherwise gcc would not vectorise them. */
#if defined(__AVX2__)
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic") /* O3 takes gcc twice as long */
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math")
