%% A session as the modules of flame_prof describe it to the C library, for tests that go without
%% them; and the engine of a session, which they do not show.
-module(library_session).

-export([options/2, engine/1]).

%% What the caller sets replaces what is here: one ranking of a hundred, no limits.
-spec options(file:filename(), map()) -> map().
options(Directory, Set) ->
    maps:merge(#{engine => native, event => cpu_clock,
        directory => unicode:characters_to_binary(Directory), node => <<>>, compress => zstd,
        sync => none, flushes_per_file => 0, max_files => 0, max_file_bytes => 0,
        max_total_bytes => 0, sample_interval_us => 2000, flush_interval => 60000,
        node_interval => 5000, lookback_ms => 0, note => <<>>, about => <<>>,
        collapse_recursion => true, rules => [{reductions, true, 100, 1}], coalesce_idle => false,
        growers => 0, select_interval_ms => 100, status => all, exclude => [],
        ring_bytes => 4 bsl 20, libraries_bytes => 0, text_bytes => 0, cpu_permille => 0,
        os_pid => 0, pid_number_bits => 28, mode => processes, running_stacks => false,
        c_frames => false, messages => false, otel => false, schedulers_online => 1
    }, Set).

%% The portable engine of a session.
-spec engine(pid()) -> pid().
engine(Session) ->
    {links, Links} = process_info(Session, links),
    {ok, Targets} = flame_prof_session:targets(current),
    [Engine] = [Pid || Pid <- Links, is_pid(Pid), Pid =/= whereis(flame_prof_sup), Pid =/= Targets,
        proc_lib:translate_initial_call(Pid) =/= {flame_prof_node, init, 1}],
    Engine.
