//go:build linux && cgo && (amd64 || arm64)

#define _GNU_SOURCE
#include "dlopen.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

uint64_t dl_open(const char *path, char **reason)
{
	/* Not RTLD_GLOBAL: functions inside a library must not be replaced by those that another one,
	 * such as a custom operator package, happens to name alike. */
	void *h = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!h) {
		const char *text = dlerror();
		*reason = strdup(text ? text : "unknown reason");
	}
	return (uint64_t)h;
}

uint64_t dl_symbol(uint64_t handle, const char *name) { return (uint64_t)dlsym(handle ? (void *)handle : RTLD_DEFAULT, name); }
