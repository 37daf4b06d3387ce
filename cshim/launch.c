#include "shim.h"

#include <stdlib.h>

/* What is left of the encoded arguments. */
struct reader {
	const uint64_t *at;
};

static uint64_t next(struct reader *r) { return *r->at++; }

/* The base functions have known signatures: calling them with their own number of words
 * spares the trampoline's. */
static uint64_t base1(int which, uint64_t x) { return ((uint64_t(*)(uint64_t))cann_base(which))(x); }

static uint64_t base2(int which, uint64_t x, uint64_t y)
{
	return ((uint64_t(*)(uint64_t, uint64_t))cann_base(which))(x, y);
}

static uint64_t base4(int which, uint64_t w, uint64_t x, uint64_t y, uint64_t z)
{
	return ((uint64_t(*)(uint64_t, uint64_t, uint64_t, uint64_t))cann_base(which))(w, x, y, z);
}

typedef uint64_t (*create_tensor)(const uint64_t *dims, uint64_t rank, int64_t dtype, const uint64_t *strides,
				  uint64_t offset, int64_t format, const uint64_t *storage_dims, uint64_t storage_rank,
				  uint64_t address);

/* header: class 8 bits, rank 8, storage rank 8, unused 8, dtype 16, format 16 */
static uint64_t build_tensor(struct reader *r, uint64_t header)
{
	uint64_t rank = header >> 8 & 0xff, storage = header >> 16 & 0xff;
	uint64_t address = next(r), offset = next(r);
	const uint64_t *dims = r->at, *strides = dims + rank, *storage_dims = strides + rank;
	r->at = storage_dims + storage;
	return ((create_tensor)cann_base(CANN_CREATE_TENSOR))(dims, rank, (int16_t)(header >> 32), strides, offset,
							      (int16_t)(header >> 48), storage_dims, storage, address);
}

static uint64_t build_scalar(struct reader *r, uint64_t header)
{
	const uint64_t *value = r->at;
	r->at += 2;
	return base2(CANN_CREATE_SCALAR, (uint64_t)value, (uint64_t)(int64_t)(int16_t)(header >> 32));
}

/* The members of a list belong to the list once it exists. */
static uint64_t build_list(struct reader *r, uint64_t count, uint64_t (*build)(struct reader *, uint64_t), int create,
			   int destroy, uint64_t **tensors)
{
	uint64_t few[64], *members = count <= 64 ? few : malloc(count * sizeof *members);
	uint64_t n = 0, list = 0;
	if (!members)
		return 0;
	while (n < count && (members[n] = build(r, next(r))) != 0)
		n++;
	if (n == count)
		list = base2(create, (uint64_t)members, count);
	if (!list)
		while (n > 0)
			base1(destroy, members[--n]);
	else if (tensors && *tensors)
		for (uint64_t i = 0; i < count; i++)
			*(*tensors)++ = members[i];
	if (members != few)
		free(members);
	return list;
}

/* Payload of count elements of the given size, packed into words. */
static uint64_t packed(struct reader *r, uint64_t count, uint64_t size)
{
	const uint64_t *p = r->at;
	r->at += (count * size + 7) / 8;
	return (uint64_t)p;
}

/* Builds one argument: its word, and the descriptor to destroy later if it made one. */
static int build(struct cann_launch *l, struct reader *r, uint64_t *word, uint64_t **tensors)
{
	uint64_t header = next(r), count = header >> 8 & 0xffffff;
	uint64_t object = 0;
	int destroy = 0;
	switch (header & 0xff) {
	case CANN_NULL:
		*word = 0;
		return 1;
	case CANN_INT:
		*word = next(r);
		return 1;
	case CANN_STRING:
		*word = packed(r, count, 1);
		return 1;
	case CANN_TENSOR:
		object = build_tensor(r, header);
		destroy = CANN_DESTROY_TENSOR;
		if (*tensors && object)
			*(*tensors)++ = object;
		break;
	case CANN_TENSORS:
		object = build_list(r, count, build_tensor, CANN_CREATE_TENSORS, CANN_DESTROY_TENSOR, tensors);
		destroy = CANN_DESTROY_TENSORS;
		break;
	case CANN_SCALAR:
		object = build_scalar(r, header);
		destroy = CANN_DESTROY_SCALAR;
		break;
	case CANN_SCALARS:
		object = build_list(r, count, build_scalar, CANN_CREATE_SCALARS, CANN_DESTROY_SCALAR, NULL);
		destroy = CANN_DESTROY_SCALARS;
		break;
	case CANN_INTS:
		object = base2(CANN_CREATE_INTS, packed(r, count, 8), count);
		destroy = CANN_DESTROY_INTS;
		break;
	case CANN_FLOATS:
		object = base2(CANN_CREATE_FLOATS, packed(r, count, 4), count);
		destroy = CANN_DESTROY_FLOATS;
		break;
	case CANN_BOOLS:
		object = base2(CANN_CREATE_BOOLS, packed(r, count, 1), count);
		destroy = CANN_DESTROY_BOOLS;
		break;
	}
	if (!object)
		return 0;
	l->object[l->objects] = object;
	l->kind[l->objects++] = (uint8_t)destroy;
	*word = object;
	return 1;
}

static void destroy_objects(struct cann_launch *l)
{
	while (l->objects > 0) {
		l->objects--;
		base1(l->kind[l->objects], l->object[l->objects]);
	}
}

static int fail(struct cann_launch *l, int stage, int32_t code)
{
	l->stage = stage;
	l->code = code;
	l->message = cann_error_text();
	destroy_objects(l);
	return 0;
}

static int phase_one(struct cann_launch *l, const uint64_t *words, uint64_t *tensors)
{
	struct reader r = {words};
	uint64_t ints[64];
	double floats[8] = {0};
	uint32_t n = 0, f = 0;
	l->objects = 0;
	l->executor = l->need = l->message = 0;
	l->code = 0;
	int32_t code = cann_bind(l->context);
	if (code != 0)
		return fail(l, CANN_BIND, code);
	for (uint32_t i = 0; i < l->params; i++) {
		uint64_t class = *r.at & 0xff;
		if (class == CANN_DOUBLE || class == CANN_FLOAT) {
			union {
				uint64_t bits;
				double value;
			} u = {r.at[1]};
			r.at += 2;
			if (f == 8)
				return fail(l, CANN_BUILD, 0);
			floats[f++] = u.value;
		} else if (!build(l, &r, &ints[n++], &tensors)) {
			return fail(l, CANN_BUILD, 0);
		}
	}
	ints[n++] = (uint64_t)&l->need;
	ints[n++] = (uint64_t)&l->executor;
	code = (int32_t)cann_invoke(l->prepare, ints, n, floats);
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

void cann_launch(struct cann_launch *l, const uint64_t *words)
{
	if (l->stage != CANN_WORKSPACE) {
		if (!phase_one(l, words, NULL))
			return;
		if (l->need > l->size) {
			l->stage = CANN_WORKSPACE;
			return;
		}
	} else {
		int32_t code = cann_bind(l->context);
		if (code != 0) {
			base1(CANN_DESTROY_EXECUTOR, l->executor);
			fail(l, CANN_BIND, code);
			return;
		}
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

void cann_prepare(struct cann_launch *l, const uint64_t *words, uint64_t *tensors)
{
	if (!phase_one(l, words, tensors))
		return;
	int32_t code = (int32_t)base1(CANN_SET_REPEATABLE, l->executor);
	if (code != 0) {
		base1(CANN_DESTROY_EXECUTOR, l->executor);
		l->executor = 0;
		fail(l, CANN_PREPARE, code);
		return;
	}
	l->stage = CANN_DONE;
}

void cann_run(struct cann_launch *l, const uint64_t *tensors, const uint64_t *addresses, uint32_t count)
{
	l->message = 0;
	l->code = cann_bind(l->context);
	for (uint32_t i = 0; i < count && l->code == 0; i++) {
		if (!addresses[i])
			continue;
		l->code = (int32_t)base4(CANN_SET_ADDRESS, l->executor, i, tensors[i], addresses[i]);
	}
	if (l->code != 0) {
		l->stage = CANN_BIND;
		l->message = cann_error_text();
		return;
	}
	phase_two(l);
}
