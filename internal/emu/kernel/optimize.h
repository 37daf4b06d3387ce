/* Options of all kernels; cgo refuses most on the command line. O3 takes gcc twice as long, for kernels that are hardly
 * faster. What sets errno or raises flags is not vectorised. */
#if defined(__AVX2__) && !defined(PRODUCTS_ALONE) /* at O2 attention backward of pairs takes a sixth longer */
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "unswitch-loops", "version-loops-for-strides")
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math")

/* A third of gcc's time goes to passes that make kernels no faster, and to others that products and old CPUs do without. */
#if defined(__x86_64__)
#pragma GCC optimize("no-thread-jumps", "no-tree-vrp", "no-tree-dominator-opts", "no-tree-bit-ccp", "no-tree-copy-prop")
#if defined(PRODUCTS_ALONE) || !defined(__AVX2__)
#pragma GCC optimize("ira-region=one", "no-tree-pre", "no-code-hoisting", "no-gcse", "no-unswitch-loops", \
	"no-schedule-insns2", "no-dse", "no-peephole2", "no-rerun-cse-after-loop")
#endif
#endif
