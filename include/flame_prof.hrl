%% The vocabulary of files and events, for modules that read either:
%%
%%   -include_lib("flame_prof/include/flame_prof.hrl").

%% The statuses of a process, as in process_info/2.
-define(FLAME_PROF_STATUSES, [
    waiting, runnable, running, garbage_collecting, suspended, exiting
]).

%% The metrics of a sample, in the order of the file. Units are those of process_info/2: bytes
%% for memory, words for heaps and stacks, counts for the rest.
-define(FLAME_PROF_METRICS, [
    reductions, message_queue_len, memory, total_heap_size, stack_size, heap_size,
    heap_block_size, old_heap_size, old_heap_block_size, recent_size, mbuf_size, bin_vheap_size,
    bin_vheap_block_size, bin_old_vheap_size, bin_old_vheap_block_size, minor_gcs
]).

%% The symbols of pseudo frames, which stand for what is no function. Their dso is
%% ?FLAME_PROF_DSO. doc/format.md says where each of them stands.
-define(FLAME_PROF_DSO, <<"flame_prof">>).
-define(FLAME_PROF_GC, <<"[gc]">>).
-define(FLAME_PROF_IDLE, <<"[idle]">>).
-define(FLAME_PROF_AMBIGUOUS, <<"ambiguous">>).
-define(FLAME_PROF_TRUNCATED, <<"truncated">>).
-define(FLAME_PROF_NOT_SAMPLED, <<"running_stack_not_sampled">>).
-define(FLAME_PROF_UNREADABLE, <<"stack_unreadable">>).
-define(FLAME_PROF_NO_FRAMES, <<"no_frames">>).

%% The sample of the profiler itself: its symbol and its thread id.
-define(FLAME_PROF_SELF, <<"flame_prof_self">>).
-define(FLAME_PROF_SELF_TID, 2147483647).

%% The events for telemetry.
-define(FLAME_PROF_EVENT_SESSION_START, [flame_prof, session, start]).
-define(FLAME_PROF_EVENT_SESSION_STOP, [flame_prof, session, stop]).
-define(FLAME_PROF_EVENT_TRIGGER_FIRE, [flame_prof, trigger, fire]).
-define(FLAME_PROF_EVENT_FOLLOW_STOP, [flame_prof, follow, stop]).

%% Evaluates and profiles the expression: see flame_prof:profile/1.
-define(PROFILE(Expr), flame_prof:profile(fun() -> Expr end)).
