/* Reading and writing of one element type S by computation type T: packing into panels,
 * loading and storing of rows. gemm_body.h includes it once per pair of types, with
 *   SRC(x)        the prefix of the functions
 *   LOAD1(p)      one converted element
 *   LOAD4(p)      a vector v4 of four adjacent ones
 *   STORE1(p, x)  writes one element
 *   STOREV(p, v)  writes a vector V; optional */

typedef S SRC(s4) __attribute__((vector_size(4 * sizeof(S)), aligned(sizeof(S)), may_alias));

#ifndef LOAD1
#define LOAD1(p) ((T) * (p))
#define LOAD4(p) __builtin_convertvector(*(const SRC(s4) *)(p), NAME(v4))
#define STORE1(p, x) (*(p) = (S)(x))
#endif
#define STORE4(p, v) (*(NAME(v4u) *)(p) = (v))

/* dst[p·width + i] = src[p·k_stride + i·w_stride] for i < w, p < k. Groups of four along w
 * may overlap at the end, so that any w ≥ 4 needs no remainder. */
static inline __attribute__((always_inline)) void
SRC(pack_width)(T *restrict dst, const int64_t width, const int64_t w, int64_t k, const S *restrict src,
		int64_t w_stride, int64_t k_stride)
{
	int64_t p = 0;
	if (w >= 4 && w_stride == 1) {
		for (; p < k; p++) {
			for (int64_t i = 0; i < w; i += 4) {
				int64_t j = i < w - 4 ? i : w - 4;
				STORE4(dst + p * width + j, LOAD4(src + p * k_stride + j));
			}
		}
	} else if (w >= 4 && k_stride == 1) {
		for (; p + 4 <= k; p += 4) {
			for (int64_t i = 0; i < w; i += 4) {
				int64_t j = i < w - 4 ? i : w - 4;
				const S *in = src + j * w_stride + p;
				T *out = dst + p * width + j;
				NAME(v4) r0 = LOAD4(in), r1 = LOAD4(in + w_stride);
				NAME(v4) r2 = LOAD4(in + 2 * w_stride), r3 = LOAD4(in + 3 * w_stride);
				NAME(v4) a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
				NAME(v4) b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
				NAME(v4) c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
				NAME(v4) d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
				STORE4(out, __builtin_shufflevector(a, b, 0, 1, 4, 5));
				STORE4(out + width, __builtin_shufflevector(a, b, 2, 3, 6, 7));
				STORE4(out + 2 * width, __builtin_shufflevector(c, d, 0, 1, 4, 5));
				STORE4(out + 3 * width, __builtin_shufflevector(c, d, 2, 3, 6, 7));
			}
		}
	}
	for (; p < k; p++)
		for (int64_t i = 0; i < w; i++)
			dst[p * width + i] = LOAD1(src + p * k_stride + i * w_stride);
}

static void SRC(pack)(T *dst, int64_t width, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	if (w == NR && width == NR)
		SRC(pack_width)(dst, NR, NR, k, src, w_stride, k_stride);
	else if (w == GEMM_MR && width == GEMM_MR)
		SRC(pack_width)(dst, GEMM_MR, GEMM_MR, k, src, w_stride, k_stride);
	else
		SRC(pack_width)(dst, width, w, k, src, w_stride, k_stride);
}

/* dst[rows×NR] = src; columns beyond cols are not written. */
static void SRC(load)(T *restrict dst, int64_t rows, int64_t cols, const S *restrict src, int64_t row_stride,
		      int64_t col_stride)
{
	for (int64_t r = 0; r < rows; r++, dst += NR, src += row_stride) {
		int64_t i = 0;
		if (col_stride == 1)
			for (; i + 4 <= cols; i += 4)
				STORE4(dst + i, LOAD4(src + i));
		for (; i < cols; i++)
			dst[i] = LOAD1(src + i * col_stride);
	}
}

static void SRC(store)(S *restrict dst, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols,
		       const T *restrict src, int64_t src_row)
{
	for (int64_t r = 0; r < rows; r++, src += src_row, dst += row_stride) {
		int64_t i = 0;
#ifdef STOREV
		if (col_stride == 1)
			for (; i + VL <= cols; i += VL)
				STOREV(dst + i, *(const NAME(vu) *)(src + i));
#endif
		for (; i < cols; i++)
			STORE1(dst + i * col_stride, src[i]);
	}
}

#undef S
#undef SRC
#undef LOAD1
#undef LOAD4
#undef STORE1
#undef STORE4
#undef STOREV
