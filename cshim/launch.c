//go:build linux && cgo && (amd64 || arm64)

#include "shim.h"

#include <stdlib.h>

/* The base functions have known signatures: calling them with their own number of words
 * spares the trampoline's. */
static inline uint64_t base1(int which, uint64_t x) { return ((uint64_t(*)(uint64_t))cann_base(which))(x); }

static inline uint64_t base2(int which, uint64_t x, uint64_t y)
{
	return ((uint64_t(*)(uint64_t, uint64_t))cann_base(which))(x, y);
}

static inline uint64_t base4(int which, uint64_t w, uint64_t x, uint64_t y, uint64_t z)
{
	return ((uint64_t(*)(uint64_t, uint64_t, uint64_t, uint64_t))cann_base(which))(w, x, y, z);
}

/* What is left of the records. */
struct reader {
	const uint64_t *at;
	uint64_t **tensors; /* where the tensors made are noted, or NULL */
};

static const void *take(struct reader *r, uint64_t bytes)
{
	const uint64_t *p = r->at;
	r->at += (bytes + 7) / 8;
	return p;
}

static uint64_t build_tensor(struct reader *r)
{
	typedef uint64_t (*create)(const int64_t *dims, uint64_t rank, int64_t dtype, const int64_t *strides, int64_t offset,
				   int64_t format, const int64_t *storage, uint64_t storage_rank, uint64_t address);
	const struct cann_tensor *t = take(r, sizeof *t);
	return ((create)cann_base(CANN_CREATE_TENSOR))(t->dims, t->rank, t->dtype, t->strides, t->offset, t->format, t->storage,
						       t->storage_rank, t->address);
}

static uint64_t build_scalar(struct reader *r)
{
	const struct cann_record *head = take(r, sizeof *head);
	return base2(CANN_CREATE_SCALAR, (uint64_t)take(r, 16), (uint64_t)(int64_t)head->dtype);
}

/* The members of a list belong to the list once it exists. */
static uint64_t build_list(struct reader *r, uint64_t count, uint64_t (*build)(struct reader *), int create, int destroy)
{
	uint64_t few[64], *members = count <= 64 ? few : malloc(count * sizeof *members);
	uint64_t n = 0, list = 0;
	if (!members)
		return 0;
	while (n < count && (members[n] = build(r)) != 0)
		n++;
	if (n == count)
		list = base2(create, (uint64_t)members, count);
	if (!list)
		while (n > 0)
			base1(destroy, members[--n]);
	else if (r->tensors && destroy == CANN_DESTROY_TENSOR)
		for (uint64_t i = 0; i < count; i++)
			*(*r->tensors)++ = members[i];
	if (members != few)
		free(members);
	return list;
}

/* An object that CANN makes of a packed array. */
static uint64_t build_array(struct reader *r, uint64_t count, uint64_t size, int create)
{
	return base2(create, (uint64_t)take(r, count * size), count);
}

/* Makes the object of the next record, which is not a tensor; destroy ends it. */
static uint64_t build(struct reader *r, const struct cann_record *head, int *destroy)
{
	if (head->class == CANN_SCALAR) {
		*destroy = CANN_DESTROY_SCALAR;
		return build_scalar(r);
	}
	take(r, sizeof *head);
	switch (head->class) {
	case CANN_TENSORS:
		*destroy = CANN_DESTROY_TENSORS;
		return build_list(r, head->count, build_tensor, CANN_CREATE_TENSORS, CANN_DESTROY_TENSOR);
	case CANN_SCALARS:
		*destroy = CANN_DESTROY_SCALARS;
		return build_list(r, head->count, build_scalar, CANN_CREATE_SCALARS, CANN_DESTROY_SCALAR);
	case CANN_INTS:
		*destroy = CANN_DESTROY_INTS;
		return build_array(r, head->count, 8, CANN_CREATE_INTS);
	case CANN_FLOATS:
		*destroy = CANN_DESTROY_FLOATS;
		return build_array(r, head->count, 4, CANN_CREATE_FLOATS);
	case CANN_BOOLS:
		*destroy = CANN_DESTROY_BOOLS;
		return build_array(r, head->count, 1, CANN_CREATE_BOOLS);
	}
	return 0;
}

/* Fills in the words that the records stand for. */
static int build_all(struct cann_launch *l, const uint64_t *records, uint64_t *tensors)
{
	struct reader r = {records, tensors ? &tensors : NULL};
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->records; i++) {
		const struct cann_record *head = (const struct cann_record *)r.at;
		if (head->class == CANN_STRING) {
			take(&r, sizeof *head);
			l->word[head->slot] = (uint64_t)take(&r, head->count);
			continue;
		}
		int destroy = CANN_DESTROY_TENSOR;
		uint64_t object;
		if (head->class == CANN_TENSOR) {
			object = build_tensor(&r);
			if (tensors && object)
				*tensors++ = object;
		} else {
			object = build(&r, head, &destroy);
		}
		if (!object)
			return 0;
		l->word[head->slot] = l->object[n] = object;
		l->kind[n] = (uint8_t)destroy;
		l->objects = ++n;
	}
	return 1;
}

static void destroy_objects(struct cann_launch *l)
{
	for (uint32_t n = l->objects; n > 0; n--)
		base1(l->kind[n - 1], l->object[n - 1]);
	l->objects = 0;
}

static int fail(struct cann_launch *l, int stage, int32_t code)
{
	l->stage = stage;
	l->code = code;
	l->message = cann_error_text();
	destroy_objects(l);
	return 0;
}

static int phase_one(struct cann_launch *l, const uint64_t *records, uint64_t *tensors)
{
	l->objects = 0;
	l->executor = l->need = l->message = 0;
	l->code = 0;
	int32_t code = cann_bind(l->context);
	if (code != 0)
		return fail(l, CANN_BIND, code);
	if (!build_all(l, records, tensors))
		return fail(l, CANN_BUILD, 0);
	l->word[l->words] = (uint64_t)&l->need;
	l->word[l->words + 1] = (uint64_t)&l->executor;
	code = (int32_t)cann_invoke(l->prepare, l->word, l->words + 2, l->floats);
	if (code != 0)
		return fail(l, CANN_PREPARE, code);
	return 1;
}

static void phase_two(struct cann_launch *l)
{
	typedef int32_t (*execute)(uint64_t workspace, uint64_t size, uint64_t executor, uint64_t stream);
	l->code = ((execute)l->execute)(l->need ? l->workspace : 0, l->need, l->executor, l->stream);
	l->stage = l->code == 0 ? CANN_DONE : CANN_EXECUTE;
	if (l->code != 0)
		l->message = cann_error_text();
}

void cann_launch(struct cann_launch *l, const uint64_t *records)
{
	if (!phase_one(l, records, NULL))
		return;
	if (l->need > l->size) {
		cann_release(l);
		l->stage = CANN_WORKSPACE;
		return;
	}
	phase_two(l); /* consumes the executor whether it succeeds or not */
	destroy_objects(l);
}

void cann_release(struct cann_launch *l)
{
	if (l->executor)
		base1(CANN_DESTROY_EXECUTOR, l->executor);
	l->executor = 0;
	l->stage = CANN_DONE;
	destroy_objects(l);
}

/* Phase one with the thread's cache of executors out of the way. */
static int phase_one_uncached(struct cann_launch *l, const uint64_t *records, uint64_t *tensors)
{
	((void (*)(void))cann_base(CANN_BYPASS_CACHE))();
	int ok = phase_one(l, records, tensors);
	((void (*)(void))cann_base(CANN_USE_CACHE))();
	return ok;
}

/* An executor that phase one found in the cache of its thread cannot be repeated: one is made
 * that the cache does not know. */
void cann_prepare(struct cann_launch *l, const uint64_t *records, uint64_t *tensors)
{
	if (!phase_one(l, records, tensors))
		return;
	int32_t code = (int32_t)base1(CANN_SET_REPEATABLE, l->executor);
	if (code != 0 && cann_base(CANN_BYPASS_CACHE) && cann_base(CANN_USE_CACHE)) {
		free((void *)cann_error_text());
		cann_release(l);
		if (!phase_one_uncached(l, records, tensors))
			return;
		code = (int32_t)base1(CANN_SET_REPEATABLE, l->executor);
	}
	if (code != 0) {
		base1(CANN_DESTROY_EXECUTOR, l->executor);
		l->executor = 0;
		fail(l, CANN_PREPARE, code);
		return;
	}
	l->stage = CANN_DONE;
}

void cann_run(struct cann_launch *l, const uint64_t *tensors, const uint64_t *places, const uint64_t *addresses,
	      uint32_t count)
{
	l->message = 0;
	l->code = cann_bind(l->context);
	for (uint32_t i = 0; i < count && l->code == 0; i++) {
		if (!addresses[i])
			continue;
		int set = places[i] & 1 ? CANN_SET_OUTPUT : CANN_SET_INPUT;
		l->code = (int32_t)base4(set, l->executor, places[i] >> 1, tensors[i], addresses[i]);
	}
	if (l->code != 0) {
		l->stage = CANN_BIND;
		l->message = cann_error_text();
		return;
	}
	phase_two(l);
}
