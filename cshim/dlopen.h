/* dlopen with the reason of a failure taken on the same thread. */
#ifndef CSHIM_DLOPEN_H
#define CSHIM_DLOPEN_H

#include <stdint.h>

/* Returns a handle, or 0 and a malloc'ed reason. */
uint64_t dl_open(const char *path, char **reason);
/* Address of a symbol, or 0. Handle 0 searches what the process has loaded already. */
uint64_t dl_symbol(uint64_t handle, const char *name);

#endif
