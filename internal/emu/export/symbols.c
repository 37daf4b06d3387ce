// Every symbol of CANN: the functions of the generated lists, which pack their arguments into words,
// and the table in which emu_lookup finds them.
#include "export.h"
#include "zz_each.h"

// Declares a parameter; the type may be that of an array or of a pointer to a function.
#define PARAM(type, name) __typeof__(type) name

// Packs a parameter. Only one branch runs, but the compiler checks all three for each type: hence AS.
#define AS(type, x) _Generic((x), type: (x), default: (type)0)
#define WORD(type, x) _Generic((x), double: DOUBLE(AS(double, x)), float: FLOAT(AS(float, x)), default: (uint64_t)(x))

// The place of a function in its list is its number in package machine, that of an operator its id.
#define FUNCTION(since, failure, result, name, ...) NUMBER_OF_##name,
#define PLAIN(since, failure, result, name) NUMBER_OF_##name,
#define WRITTEN(since, failure, name) NUMBER_OF_##name,
enum {
#include "zz_function_list.h"
};
#define OPERATOR(since, name, ...) NUMBER_OF_##name,
enum {
#include "zz_operator_list.h"
};

#undef FUNCTION
#undef PLAIN
#undef WRITTEN
#undef OPERATOR
#define FUNCTION(since, failure, result, name, ...) \
	result name(EACH(PARAM, __VA_ARGS__)) \
	{ \
		return (result)emu_call(NUMBER_OF_##name, WORDS(EACH(WORD, __VA_ARGS__)), COUNT(__VA_ARGS__)); \
	}
#define PLAIN(since, failure, result, name) \
	result name(void) { return (result)emu_call(NUMBER_OF_##name, 0, 0); }
#define WRITTEN(since, failure, name) void name(void);
#include "zz_function_list.h"
#define OPERATOR(since, name, ...) \
	aclnnStatus name##GetWorkspaceSize(EACH(PARAM, __VA_ARGS__), uint64_t *workspaceSize, aclOpExecutor **executor) \
	{ \
		return emu_prepare(NUMBER_OF_##name, WORDS(EACH(WORD, __VA_ARGS__), POINTER(workspaceSize), POINTER(executor)), \
			COUNT(__VA_ARGS__) + 2); \
	} \
	aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) \
	{ \
		return emu_execute(NUMBER_OF_##name, workspace, workspaceSize, executor, stream); \
	}
#include "zz_operator_list.h"

#undef FUNCTION
#undef PLAIN
#undef WRITTEN
#define FUNCTION(since, failure, result, name, ...) failure,
#define PLAIN(since, failure, result, name) failure,
#define WRITTEN(since, failure, name) failure,
const int32_t emu_failures[] = {
#include "zz_function_list.h"
};
const int emu_text_function = NUMBER_OF_aclGetRecentErrMsg;

#undef FUNCTION
#undef PLAIN
#undef WRITTEN
#undef OPERATOR
#define FUNCTION(since, failure, result, name, ...) {#name, (void *)name, since},
#define PLAIN(since, failure, result, name) {#name, (void *)name, since},
#define WRITTEN(since, failure, name) {#name, (void *)name, since},
#define OPERATOR(since, name, ...) {#name "GetWorkspaceSize", (void *)name##GetWorkspaceSize, since}, {#name, (void *)name, since},
static const struct emu_symbol symbols[] = {
#include "zz_function_list.h"
#include "zz_operator_list.h"
};

const struct emu_symbol *emu_lookup(const char *name)
{
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		if (strcmp(name, symbols[i].name) == 0)
			return &symbols[i];
	return 0;
}
