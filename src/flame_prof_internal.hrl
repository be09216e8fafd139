%% Internal macros of several modules.

%% A guard.
-define(IS_WITHIN(Value, Least, Most),
    (is_integer(Value) andalso Value >= Least andalso Value =< Most)
).

%% Limits of the C library: flame_prof_header_tests compares them.
-define(FP_RANKINGS_MAX, 8).
-define(FP_PINNED_MAX, 1024).
-define(FP_STACK_SLOTS, 8192).
-define(FP_STACK_FRAMES_MAX, 250).
-define(FP_FRAME_TEXT_MAX, 65536).
-define(FP_FILE_BYTES_MAX, 255).
-define(FP_LOG_NODE_ROOM, 160).

%% Of every log event, so that a handler can tell them apart. No domain: OTP's default handler
%% drops events of a domain of one's own, and these are few and meant to be seen.
-define(LOG_META, #{application => flame_prof}).
%% Of events that need no action.
-define(QUIET_META, #{application => flame_prof, domain => [flame_prof]}).
