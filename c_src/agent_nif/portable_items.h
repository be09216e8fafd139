/* portable_items.h - the items of the portable engine (flame_prof_nif:item/0). */
#pragma once

#include <erl_nif.h>

#include "session/session.h"

/* Between fp_session_enter and fp_session_leave. 1, or 0 when `item` is malformed. An item that
 * finds no room in the ring is counted there and is no error. */
int fp_portable_item_put(ErlNifEnv *env, struct fp_session *session,
                         struct fp_record_encoder *encoder, ERL_NIF_TERM item);
