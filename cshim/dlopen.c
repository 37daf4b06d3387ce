//go:build linux && cgo && (amd64 || arm64)

#define _GNU_SOURCE
#include "dlopen.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

uint64_t dl_open(const char *path, char **reason)
{
	void *h = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	if (!h) {
		const char *text = dlerror();
		*reason = strdup(text ? text : "unknown reason");
	}
	return (uint64_t)h;
}

uint64_t dl_symbol(uint64_t handle, const char *name) { return (uint64_t)dlsym(handle ? (void *)handle : RTLD_DEFAULT, name); }
