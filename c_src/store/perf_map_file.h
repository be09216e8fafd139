/* perf_map_file.h - the file of a perf map. Each is a new one that a rename puts in its place: perf
 * reads the old one or the new one, whole, and a link at that place is replaced, not followed. A
 * dirty scheduler's work. No state. */
#pragma once

#include <stddef.h>

/* Makes `path` a file of mode 0600 with these bytes. 0; FP_ESTATE: this process has that very file
 * open for writing, so it is the VM's own (+JPperf); FP_EIO. Then `why` has the path and the
 * reason, and nothing is left behind. */
int fp_perf_map_write(const char *path, const char *bytes, size_t size, char *why, size_t why_size);
