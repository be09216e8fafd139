/* handle.h - a look that takes several calls, as a resource of the Erlang process that asked. */
#pragma once

#include "nif/vm.h"

struct fp_look_handle {
    _Atomic int entered; /* 1 during a call: a second caller gets badarg */
    int is_open;         /* memory */
    struct fp_memory memory;
    void *look; /* NULL: it could not be opened, or its answer was given */
    void (*close)(void *look);
};

/* Of so many bytes, the first ones a struct fp_look_handle. Its memory is open, or *err is set. */
void *fp_look_handle_new(ErlNifResourceType *type, size_t bytes, void (*close)(void *look),
                         int *err);
/* {ok, Handle} | {error, Error}; the handle is Erlang's from now on. */
ERL_NIF_TERM fp_look_handle_result(ErlNifEnv *env, struct fp_look_handle *handle, int err);

/* NULL: `term' is no handle with a look, or another call has it. Else leave has to follow. */
void *fp_look_handle_enter(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifResourceType *type);
void fp_look_handle_leave(struct fp_look_handle *handle);
/* In a call, as destructors have a normal scheduler and this takes its time. */
void fp_look_handle_close(struct fp_look_handle *handle);

/* The destructor: something is left only of a look that was given up. */
void fp_look_handle_destroy(ErlNifEnv *env, void *object);
