/* Options of all kernels; cgo refuses most on the command line. O3 takes gcc twice as long, for kernels that are hardly
 * faster. What sets errno or raises flags is not vectorised. */
#if defined(__AVX2__) && !defined(PRODUCTS_ALONE) /* at O2 attention backward of pairs takes a sixth longer */
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "unswitch-loops")
#endif
#if defined(__AVX512F__)
#pragma GCC optimize("version-loops-for-strides") /* without, products of int8 take up to 1.9 times as long */
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math")

/* Half of gcc's time goes to passes that make kernels no faster, and to others that products and old CPUs do without. */
#if defined(__x86_64__)
#pragma GCC optimize("no-thread-jumps", "no-tree-vrp", "no-tree-dominator-opts", "no-tree-bit-ccp", "no-tree-copy-prop", \
	"no-code-hoisting", "no-gcse", "no-schedule-insns2", "no-dse", "no-peephole2", "no-rerun-cse-after-loop")
#if defined(PRODUCTS_ALONE) || !defined(__AVX2__)
#pragma GCC optimize("no-tree-pre", "no-unswitch-loops")
#endif
#if defined(__AVX512F__) || !defined(__AVX2__)
#pragma GCC optimize("ira-region=one")
#endif
#endif
