/* portable_items.h - what the portable engine hands over, an item at a time. */
#pragma once

#include <erl_nif.h>

#include "session/session.h"

/* Between fp_session_enter and fp_session_leave. An item is one of
 *
 *      {process, Slot, Number, Serial, Name, Initial, ProcLib}
 *      {frame, Id, Module, Function, Arity, Line, File}
 *      {stack, Slot, [FrameId]}
 *      {sample, ProcessSlot, StackSlot, Status, Metrics}
 *      {tick, Missed, UnixTimeUs}
 *      {lost, Ticks, Missed, Samples}
 *      {gone, N} | {torn, N} | {cpu, Ns}
 *      {selection, Processes, Selected}
 *
 * with texts as binaries, and {Module, Function, Arity} or `none` for Initial and ProcLib. 1, or 0
 * when it makes no sense. What finds no room in the ring is counted there and is no error. */
int fp_record_encoder_take(ErlNifEnv *env, struct fp_session *session, struct fp_record_encoder *to,
                           ERL_NIF_TERM item);
