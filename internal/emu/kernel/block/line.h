/* Lines of cells of 32 bits, for packing: 16 with AVX-512, 8 with AVX2. */
#ifndef GEMM_LINE_H
#define GEMM_LINE_H

#include <immintrin.h>
#include <string.h>

enum { GEMM_WIDTH = VECTOR_BYTES / 4 };

#if VECTOR_BYTES == 64
typedef __m512i gemm_line;

/* The mask of the first n elements, of which a vector has at most 32. */
static inline uint32_t gemm_mask(int64_t n) { return _bzhi_u32(0xffffffff, n < 32 ? (uint32_t)n : 32); }

/* Stores the first n cells of a line. */
static inline void gemm_put(void *to, __m512i line, int64_t n)
{
	_mm512_mask_storeu_epi32(to, (__mmask16)gemm_mask(n), line);
}

static inline __m512i gemm_line_f32(const void *p, int64_t n)
{
	return _mm512_maskz_loadu_epi32((__mmask16)gemm_mask(n), p);
}

/* 16 elements of 16 bits, as the low halves of cells. */
static inline __m512i gemm_line_u16(const void *p, int64_t n)
{
	return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)gemm_mask(n), p));
}

/* 16 elements of a 16-bit type as float32. */
static inline __m512i gemm_widen_bf16(__m256i x) { return _mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }

static inline __m512i gemm_widen_f16(__m256i x) { return (__m512i)_mm512_cvtph_ps(x); }

static inline __m512i gemm_line_bf16(const void *p, int64_t n)
{
	return gemm_widen_bf16(_mm256_maskz_loadu_epi16((__mmask16)gemm_mask(n), p));
}

static inline __m512i gemm_line_f16(const void *p, int64_t n)
{
	return gemm_widen_f16(_mm256_maskz_loadu_epi16((__mmask16)gemm_mask(n), p));
}

/* 16 pairs of 16-bit elements that follow each other, n elements in all. */
static inline __m512i gemm_line_pairs(const void *p, int64_t n) { return _mm512_maskz_loadu_epi16(gemm_mask(n), p); }

/* 16 pairs of an element of one row and one of the next, or of zero if there is only one row left. */
static inline __m512i gemm_cross_u16(const uint16_t *p, int64_t row, int64_t left, int64_t n)
{
	const __m512i low = gemm_line_u16(p, n);
	return left < 2 ? low : _mm512_or_si512(low, _mm512_slli_epi32(gemm_line_u16(p + row, n), 16));
}

/* 16 cells of four 8-bit elements that follow each other, n elements in all. */
static inline __m512i gemm_line_quads(const void *p, int64_t n)
{
	return _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, n < 64 ? (uint32_t)n : 64), p);
}

/* 16 cells of an 8-bit element of each of four rows, of which those that are left exist. */
static inline __m512i gemm_cross_u8(const uint8_t *p, int64_t row, int64_t left, int64_t n)
{
	__m128i t[4];
#pragma GCC unroll 4
	for (int x = 0; x < 4; x++)
		t[x] = _mm_maskz_loadu_epi8(x < left ? (__mmask16)gemm_mask(n) : 0, x < left ? p + x * row : p);
	const __m128i low = _mm_unpacklo_epi8(t[0], t[1]), high = _mm_unpackhi_epi8(t[0], t[1]);
	const __m128i low2 = _mm_unpacklo_epi8(t[2], t[3]), high2 = _mm_unpackhi_epi8(t[2], t[3]);
	const __m256i first = _mm256_set_m128i(_mm_unpackhi_epi16(low, low2), _mm_unpacklo_epi16(low, low2));
	const __m256i second = _mm256_set_m128i(_mm_unpackhi_epi16(high, high2), _mm_unpacklo_epi16(high, high2));
	return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/* Transposes 16 lines of 16 cells. */
INLINE void gemm_transpose(__m512i t[16])
{
	__m512i u[16];
#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2) {
		u[i] = _mm512_unpacklo_epi32(t[i], t[i + 1]);
		u[i + 1] = _mm512_unpackhi_epi32(t[i], t[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4) {
		t[i] = _mm512_unpacklo_epi64(u[i], u[i + 2]);
		t[i + 1] = _mm512_unpackhi_epi64(u[i], u[i + 2]);
		t[i + 2] = _mm512_unpacklo_epi64(u[i + 1], u[i + 3]);
		t[i + 3] = _mm512_unpackhi_epi64(u[i + 1], u[i + 3]);
	}
	/* t[4·i + j] now has the cells j, j+4, j+8 and j+12 of the lines 4·i to 4·i+3. */
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		u[j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
		u[4 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
		u[8 + j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
		u[12 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		t[j] = _mm512_shuffle_i32x4(u[j], u[4 + j], 0x88);
		t[8 + j] = _mm512_shuffle_i32x4(u[j], u[4 + j], 0xdd);
		t[4 + j] = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0x88);
		t[12 + j] = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0xdd);
	}
}

#else
typedef __m256i gemm_line;

static inline void gemm_put(void *to, __m256i line, int64_t n)
{
	if (n >= 8)
		_mm256_storeu_si256(to, line);
	else
		memcpy(to, &line, (size_t)n * 4);
}

/* The first n of 8 or 16 elements at p, of bytes each, and then zeros. */
static inline __m256i gemm_some(const void *p, int64_t n, int bytes)
{
	__m256i line = _mm256_setzero_si256();
	if (n * bytes >= 32)
		return _mm256_loadu_si256(p);
	if (n > 0)
		memcpy(&line, p, (size_t)(n * bytes));
	return line;
}

static inline __m256i gemm_line_f32(const void *p, int64_t n) { return gemm_some(p, n, 4); }

static inline __m256i gemm_widen_bf16(__m128i x) { return _mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16); }
static inline __m256i gemm_widen_f16(__m128i x) { return (__m256i)_mm256_cvtph_ps(x); }

static inline __m128i gemm_halves(const void *p, int64_t n)
{
	return n >= 8 ? _mm_loadu_si128(p) : _mm256_castsi256_si128(gemm_some(p, n, 2));
}

static inline __m256i gemm_line_bf16(const void *p, int64_t n) { return gemm_widen_bf16(gemm_halves(p, n)); }
static inline __m256i gemm_line_f16(const void *p, int64_t n) { return gemm_widen_f16(gemm_halves(p, n)); }

/* Transposes 8 lines of 8 cells. */
INLINE void gemm_transpose(__m256i t[8])
{
	__m256i u[8];
#pragma GCC unroll 4
	for (int i = 0; i < 8; i += 2) {
		u[i] = _mm256_unpacklo_epi32(t[i], t[i + 1]);
		u[i + 1] = _mm256_unpackhi_epi32(t[i], t[i + 1]);
	}
#pragma GCC unroll 2
	for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
		for (int x = 0; x < 2; x++) {
			t[i + 2 * x] = _mm256_unpacklo_epi64(u[i + x], u[i + 2 + x]);
			t[i + 2 * x + 1] = _mm256_unpackhi_epi64(u[i + x], u[i + 2 + x]);
		}
	/* t[j] now has the cells j and j+4 of the lines 0 to 3, t[4 + j] those of the others. */
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		u[j] = _mm256_permute2x128_si256(t[j], t[4 + j], 0x20);
		u[4 + j] = _mm256_permute2x128_si256(t[j], t[4 + j], 0x31);
	}
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		t[j] = u[j];
}

#endif

#endif
