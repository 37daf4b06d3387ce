/* Options of all kernels; cgo refuses most on the command line. O3 takes gcc twice as long, for kernels that are hardly
 * faster. What sets errno or raises flags is not vectorised. */
#if defined(__AVX2__)
#include <immintrin.h> /* before the options, which gcc would keep for each of its functions */
#endif
#if defined(__x86_64__)
#pragma GCC optimize("O2")
#endif
#if defined(__AVX2__)
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic")
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math")

/* Where products and sums are fused, the code says so (vfma): gcc would fuse others with every instruction set. */
#pragma GCC optimize("fp-contract=off")

/* Short loops take up to 1.8 times as long where a line of the cache ends in them. */
#pragma GCC optimize("align-loops=64")

/* Nearly half of gcc's time goes to passes that make kernels no faster, or not those of all CPUs. */
#if defined(__x86_64__)
#pragma GCC optimize("no-thread-jumps", "no-tree-vrp", "no-tree-dominator-opts", "no-tree-bit-ccp", "no-tree-copy-prop", "no-gcse", \
	"no-code-hoisting", "no-schedule-insns2", "no-dse", "no-peephole2", "no-rerun-cse-after-loop")
#if defined(PRODUCTS_ALONE) || !defined(__AVX2__)
#pragma GCC optimize("no-tree-pre")
#else
#pragma GCC optimize("unswitch-loops")
#endif
#if defined(__AVX512F__)
#pragma GCC optimize("version-loops-for-strides")
#endif
#if defined(__AVX512F__) || !defined(__AVX2__) /* with the 16 registers of AVX2 few rows take up to 1.4 times as long */
#pragma GCC optimize("ira-region=one")
#endif
#endif
