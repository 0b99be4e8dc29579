//go:build cgo

package server

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>

// By default there are eight arenas a core, and blocks of the store's cache that are
// freed in one cannot be used by threads of another: the cache then takes twice its
// bound. With one arena threads wait for each other, with two seldom. The first thread
// fixes the number, and threads start before Go's init.
__attribute__((constructor)) static void bound_arenas(void) {
	if (!getenv("MALLOC_ARENA_MAX") && !getenv("GLIBC_TUNABLES"))
		mallopt(M_ARENA_MAX, 2);
}

static void trim(void) { malloc_trim(0); }
#else
static void trim(void) {}
#endif
*/
import "C"

// storeOutside reports that the store's cache and memtables are memory of C.
const storeOutside = true

// trimOutside returns the free memory of C's arenas to the system. By itself malloc only
// trims their ends.
func trimOutside() { C.trim() }
