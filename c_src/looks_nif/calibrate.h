/* calibrate.h - whether this VM's terms are what the walker knows: made here, walked, and compared
 * with what they were made of. For a dirty NIF. */
#pragma once

#include <erl_nif.h>

#include "base/safe_read.h"
#include "erts/layout.h"

/* Terms as term/walk.h has them, compared with their external format. Sets `terms` and
 * `remote_terms` of the layout. */
void fp_terms_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout);

/* OpenTelemetry's contexts (term/otel.h). Sets `otel` of the layout. */
void fp_otel_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout);
