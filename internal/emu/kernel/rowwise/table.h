/* The kernels of rows and along dimensions that are compiled for each CPU variant. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>

struct reduce; /* reduce_op.h */
struct scan;   /* scan_op.h */
struct norm;   /* rows_op.h */
struct rotation;
struct adamw;
struct swiglu;
struct softmax;

struct rowwise_kernels {
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
};

extern const struct rowwise_kernels rowwise_portable;
#if defined(__x86_64__)
extern const struct rowwise_kernels rowwise_avx2;
#endif

/* The kernels of the variant in use. */
extern const struct rowwise_kernels *rowwise_kernels;

/* Chooses the kernels of a variant, or of the best one before it that has some. */
void rowwise_use(int variant);

#endif
