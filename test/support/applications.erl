%% Applications that a test has started end with it, and no report of that is in the log.
-module(applications).

-export([stop/1]).

stop(Applications) ->
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    _ = [application:stop(Application) || Application <- Applications],
    logger:set_primary_config(level, Level).
