/* Options of all kernels; cgo refuses most on the command line. O3 takes gcc twice as long as this, for kernels that are
 * hardly faster. sqrt and comparisons need not set errno or raise flags; otherwise gcc would not vectorise them. */
#if defined(__AVX2__)
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "unswitch-loops", "version-loops-for-strides")
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math")
