/* Included once per class by element.h: loads and stores of its type T, at most CHUNK
 * elements at a time. */
#define PASTE(a, b) a##_##b
#define JOIN(a, b) PASTE(a, b)

#define LOAD(type, x) \
	do { \
		const type *p = src; \
		EACH_ELEMENT dst[i] = (T)(x); \
	} while (0)

static NOT_INLINE void JOIN(load, S)(T *restrict dst, const void *src, int32_t dtype, int64_t n)
{
	switch (dtype) {
	case DTYPE_FLOAT16: case DTYPE_BFLOAT16: {
		if (DTYPE == DTYPE_FLOAT32) {
			floats_of_half((void *)dst, src, dtype, n);
			break;
		}
		float wide[CHUNK];
		floats_of_half(wide, src, dtype, n);
		EACH_ELEMENT dst[i] = (T)FROM_FLOAT(wide[i]);
		break;
	}
	case DTYPE_FLOAT32: LOAD(float, FROM_FLOAT(p[i])); break;
	case DTYPE_FLOAT64: LOAD(double, FROM_FLOAT(p[i])); break;
	case DTYPE_INT8: LOAD(int8_t, p[i]); break;
	case DTYPE_UINT8: LOAD(uint8_t, p[i]); break;
	case DTYPE_BOOL: LOAD(uint8_t, p[i] != 0); break;
	case DTYPE_INT16: LOAD(int16_t, p[i]); break;
	case DTYPE_UINT16: LOAD(uint16_t, p[i]); break;
	case DTYPE_INT32: LOAD(int32_t, p[i]); break;
	case DTYPE_UINT32: LOAD(uint32_t, p[i]); break;
	case DTYPE_INT64: LOAD(int64_t, p[i]); break;
	case DTYPE_UINT64: LOAD(uint64_t, p[i]); break;
	}
}

#define STORE(type, x) \
	do { \
		type *p = dst; \
		EACH_ELEMENT p[i] = (x); \
	} while (0)

static NOT_INLINE void JOIN(store, S)(void *dst, const T *restrict src, int32_t dtype, int64_t n)
{
	switch (dtype) {
	case DTYPE_FLOAT16: case DTYPE_BFLOAT16: {
		if (DTYPE == DTYPE_FLOAT32) {
			halves_of_float(dst, (const void *)src, dtype, n);
			break;
		}
		float narrow[CHUNK];
		EACH_ELEMENT narrow[i] = (float)src[i];
		halves_of_float(dst, narrow, dtype, n);
		break;
	}
	case DTYPE_FLOAT32: STORE(float, (float)src[i]); break;
	case DTYPE_FLOAT64: STORE(double, (double)src[i]); break;
	case DTYPE_INT8: STORE(int8_t, TO_INT(src[i], int8_t, INT8_MIN, INT8_MAX)); break;
	case DTYPE_UINT8: STORE(uint8_t, TO_INT(src[i], uint8_t, 0, UINT8_MAX)); break;
	case DTYPE_BOOL: STORE(uint8_t, src[i] != 0); break;
	case DTYPE_INT16: STORE(int16_t, TO_INT(src[i], int16_t, INT16_MIN, INT16_MAX)); break;
	case DTYPE_UINT16: STORE(uint16_t, TO_INT(src[i], uint16_t, 0, UINT16_MAX)); break;
	case DTYPE_INT32: STORE(int32_t, TO_INT(src[i], int32_t, INT32_MIN, INT32_MAX)); break;
	case DTYPE_UINT32: STORE(uint32_t, TO_INT(src[i], uint32_t, 0, UINT32_MAX)); break;
	case DTYPE_INT64: STORE(int64_t, TO_INT(src[i], int64_t, INT64_MIN, INT64_MAX)); break;
	case DTYPE_UINT64: STORE(uint64_t, TO_U64(src[i])); break;
	}
}

/* Returns the n elements of o from c on as T: in place if they are packed and of type T, else
 * converted into buffer. */
static NOT_INLINE const T *JOIN(fetch, S)(T *buffer, const struct operand *o, const struct space *s, const struct cursor *c, int64_t n)
{
	int32_t size = dtype_size(o->dtype);
	const char *p = packed(o, size, s, c, n);
	if (o->dtype == DTYPE) {
		if (p)
			return (const T *)p;
		gather((char *)buffer, o, size, s, *c, n);
		return buffer;
	}
	uint64_t raw[CHUNK];
	if (!p) {
		gather((char *)raw, o, size, s, *c, n);
		p = (const char *)raw;
	}
	JOIN(load, S)(buffer, p, o->dtype, n);
	return buffer;
}

/* Stores n elements of T into o from c on. */
static NOT_INLINE void JOIN(put, S)(const struct operand *o, const T *x, const struct space *s, const struct cursor *c, int64_t n)
{
	int32_t size = dtype_size(o->dtype);
	char *p = packed(o, size, s, c, n);
	if (p) {
		if (p != (const char *)x)
			JOIN(store, S)(p, x, o->dtype, n);
		return;
	}
	uint64_t raw[CHUNK];
	JOIN(store, S)(raw, x, o->dtype, n);
	scatter(o, (const char *)raw, size, s, *c, n);
}

#undef LOAD
#undef STORE
#undef T
#undef S
#undef DTYPE
#undef FROM_FLOAT
#undef TO_INT
#undef TO_U64
