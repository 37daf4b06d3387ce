/* Types shared by Go and the kernels: element types, views, and the kernel table of a variant. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "attention.h"
#include "gemm.h"

enum { MAX_RANK = 8 };

/* A strided view of host memory. Strides count elements. dtype is an aclDataType. */
struct view {
	char *data;
	int32_t dtype;
	int32_t rank;
	int64_t shape[MAX_RANK];
	int64_t stride[MAX_RANK];
};

struct map; /* op.h */
struct reduce; /* reduce_op.h */
struct scan; /* scan_op.h */
struct norm; /* rows_op.h */
struct rotation;
struct adamw;
struct swiglu;
struct softmax;
struct index_write; /* index.h */
struct combine; /* combine.h */
struct triangular; /* triangular.h */
struct fourier; /* fourier.h */

/* Attention of types that are multiplied in one way. */
struct attention_kernels {
	void (*forward)(const struct attention_block *b, int64_t part, float *scratch);
	void (*backward)(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch);
};

struct kernel_table {
	const char *name;
	int gemm_rows;   /* of the register block */
	int gemm_pieces; /* large products of float32 are multiplied in pieces of bfloat16 */
	int pace;        /* how many times as fast as others the CPU multiplies bfloat16 and 8-bit integers */
	int (*map_defined)(int32_t op, int32_t class);
	void (*map)(const struct map *m, int64_t lo, int64_t hi);
	void (*reduce)(const struct reduce *r, int columns, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *state);
	void (*reduce_merge)(const struct reduce *r, void *state, const void *later, int64_t n);
	void (*reduce_arg)(const struct reduce *r, int sign, int64_t k_lo, int64_t k_hi, void *value, int64_t *index);
	void (*scan)(const struct scan *s, int64_t lo, int64_t hi);
	void (*rms_norm)(const struct norm *o, int64_t lo, int64_t hi);
	void (*rms_norm_grad)(const struct norm *o, int64_t lo, int64_t hi, double *dgamma);
	void (*layer_norm)(const struct norm *o, int64_t lo, int64_t hi);
	void (*layer_norm_grad)(const struct norm *o, int64_t lo, int64_t hi, double *sums);
	void (*rotate)(const struct rotation *o, int64_t lo, int64_t hi);
	void (*adamw)(const struct adamw *o, int64_t lo, int64_t hi);
	void (*softmax)(const struct softmax *o, int64_t lo, int64_t hi);
	void (*softmax_grad)(const struct softmax *o, int64_t lo, int64_t hi);
	void (*swiglu)(const struct swiglu *o, int64_t lo, int64_t hi);
	void (*swiglu_grad)(const struct swiglu *o, int64_t lo, int64_t hi);
	void (*index_reduce)(const struct index_write *w, int64_t lo, int64_t hi);
	void (*combine)(const struct combine *c, int64_t lo, int64_t hi);
	void (*combine_scale_grad)(const struct combine *c, int64_t lo, int64_t hi);
	void (*triangular_solve)(const struct triangular *t, int64_t lo, int64_t hi);
	void (*fourier)(const struct fourier *f, const double *roots, const double *turns, int64_t lo, int64_t hi, double *work);
	void (*gemm_pack)(struct gemm *g, char *scratch); /* packs into the scratch what all tiles read; NULL in some variants */
	void (*gemm)(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
	struct attention_kernels attention, attention_bf16;
	void (*attention_query_grad)(const struct attention *a, const struct attention_grad *g, int64_t head, int64_t row, int64_t rows);
};

extern const struct kernel_table kernel_table_portable;
#if defined(__x86_64__)
extern const struct kernel_table kernel_table_avx2;
extern const struct kernel_table kernel_table_avx512;

/* The matrix products of the variants avx512bf16 and amx, which have the other kernels of avx512. */
void gemm_avx512bf16(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
void gemm_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
void gemm_f32_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);

/* Their attention: of bfloat16, and with AMX of all types; of floats in pieces, where the tiles are configured. */
extern const struct attention_kernels attention_avx512bf16, attention_amx, attention_f32_amx;

/* Asks the operating system for the use of AMX; returns 0 if it refuses. */
int amx_permitted(void);
#elif defined(__aarch64__)
/* The matrix products of the variants neondot and neonbf16, and attention of bfloat16, beside portable kernels. */
void gemm_neondot(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
void gemm_neonbf16(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
extern const struct attention_kernels attention_neonbf16;
#endif

/* The variant in use. */
extern const struct kernel_table *kernels;

/* Selects a variant by name ("" = the best); returns 0, or -1 if this CPU cannot run it. */
int kernel_select(const char *name);

#endif
