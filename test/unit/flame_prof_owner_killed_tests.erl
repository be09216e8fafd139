%% The owner of a session's processes is killed, as by a start whose time is over: they end, and the
%% node's log has no report of it, which would have their state.
-module(flame_prof_owner_killed_tests).

-include_lib("eunit/include/eunit.hrl").

nothing_is_reported_test_() ->
    [{atom_to_list(Name), fun() -> [] = reports(Start) end} || {Name, Start} <- [
        {targets, fun targets/0},
        {selector_of_targets, fun targets_with_a_selector/0},
        {portable_engine, fun portable_engine/0}]].

targets() -> flame_prof_targets:start_link(#{options => options(), rules => [], exclude => []}).

targets_with_a_selector() ->
    Rules = flame_prof_selection:rules({top, 5, 1000}),
    flame_prof_targets:start_link(#{options => options(), rules => Rules, exclude => []}).

portable_engine() ->
    Transport = flame_prof_transport:far(self()),
    Config = flame_prof_config:portable(Transport, options(), []),
    {ok, Engine} = flame_prof_portable:start_link(Config),
    flame_prof_portable:pid(Engine).

options() ->
    {ok, Options} = flame_prof_options:validate(#{dir => "/tmp/flame_prof_owner_killed"}),
    Options.

%% Of the time until the process that Start starts is gone: it reports before.
reports(Start) ->
    [Message || {error, Message, _} <- logged:during(fun() ->
        Self = self(),
        Owner = spawn(fun() ->
            Self ! {started, self(), Start()},
            receive never -> ok end
        end),
        Pid = receive {started, Owner, Started} -> Started end,
        Monitor = monitor(process, Pid),
        true = exit(Owner, kill),
        receive {'DOWN', Monitor, process, Pid, _} -> ok end
    end)].
