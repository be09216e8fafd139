%% What several modules of flame_prof need and nobody else does.

%% A guard.
-define(IS_WITHIN(Value, Least, Most),
    (is_integer(Value) andalso Value >= Least andalso Value =< Most)
).

%% Of every log event, so that a handler can tell them apart.
-define(LOG_META, #{application => flame_prof}).
