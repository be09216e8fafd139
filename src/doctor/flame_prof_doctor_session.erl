%% @private The doctor's own session of samples, and its files as bytes: the node that judges may be
%% another one. In the agent of a command it is the agent's; elsewhere its folder is made in a
%% directory for temporary files, and removed.
%%
%% A session that runs already is left alone: what it samples is written, and its newest files are
%% read. It may sample less than the doctor would.
-module(flame_prof_doctor_session).

-include_lib("kernel/include/file.hrl").

-export([sampled/3]).

-define(AGENT, flame_prof_agent).
%% A node is calibrated in its first session.
-define(START_MS, 8000).
-define(STOP_MS, 6000).
-define(FLUSH_MS, 3000).
%% It ends by itself where the process that is to end it has gone.
-define(LEFT_MS, 10000).
-define(BYTES_MOST, 67108864).
%% Of a session that runs already.
-define(OTHERS_BYTES_MOST, 16777216).

%% @doc Until that monotonic time. By a process that does nothing else.
-spec sampled(auto | native | portable, Ms :: pos_integer(), Until :: integer()) ->
    {ok, [flame_prof_doctor_evidence:file()]} | {unseen, binary()}.
sampled(Engine, Ms, Until) ->
    case flame_prof_engine:choose(Engine) of
        {ok, _} -> session(Engine, Ms, Until, whereis(?AGENT));
        {error, Reason} -> unseen(Reason)
    end.

session(Engine, Ms, Until, undefined) ->
    case flame_prof_doctor_files:new_folder() of
        {ok, Dir} ->
            try
                {ok, Options} = flame_prof_options:validate((options(Engine, Ms))#{dir => Dir}),
                How = #{timeout => ?START_MS, owner => none, caller => self()},
                ended(flame_prof_sup:start_session_with_application(Options, How), Until)
            after
                _ = file:del_dir_r(Dir)
            end;
        {error, Reason} ->
            unseen(Reason)
    end;
session(Engine, Ms, Until, Agent) ->
    ended(flame_prof_agent:start_session(Agent, options(Engine, Ms), none), Until).

options(Engine, Ms) ->
    #{
        engine => Engine,
        duration => Ms + ?LEFT_MS,
        select => {top, 100, 2500},
        sample_interval => 10,
        flush_interval => 5000,
        flushes_per_file => 60,
        max_total_bytes => ?BYTES_MOST,
        sync => none
    }.

ended({ok, Session}, Until) ->
    ok = wait(Until),
    case flame_prof_session:stop(Session, ?STOP_MS) of
        {ok, #{files := Files}} -> files(Files);
        {error, Reason} -> unseen(Reason)
    end;
ended({error, {already_started, _}}, Until) ->
    ok = wait(Until),
    case flame_prof:flush(?FLUSH_MS) of
        ok -> of_other(flame_prof:info());
        {error, Reason} -> unseen(Reason)
    end;
ended({error, Reason}, _Until) ->
    unseen(Reason).

wait(Until) -> timer:sleep(max(0, Until - erlang:monotonic_time(millisecond))).

of_other(#{files := [_ | _] = Files}) ->
    Times = lists:sort([{Time, File} || File <- Files,
        {ok, #file_info{mtime = Time}} <- [file:read_file_info(File, [raw, {time, posix}])]]),
    newest(lists:reverse([File || {_, File} <- Times]));
of_other(_) ->
    {unseen, <<"the session that runs in the node has no files">>}.

%% The one before has what was sampled before the newest began.
newest([Last, Before | _]) ->
    case filelib:file_size(Last) + filelib:file_size(Before) =< ?OTHERS_BYTES_MOST of
        true -> files([Before, Last]);
        false -> newest([Last])
    end;
newest([Last]) ->
    case filelib:file_size(Last) =< ?BYTES_MOST of
        true -> files([Last]);
        false -> {unseen, <<"the file of the session that runs in the node is too large">>}
    end;
newest([]) ->
    {unseen, <<"the session that runs in the node has no files">>}.

files([]) ->
    {unseen, <<"nothing was sampled">>};
files(Files) ->
    Read = [{File, file:read_file(File)} || File <- Files],
    case [{File, Reason} || {File, {error, Reason}} <- Read] of
        [] -> {ok, [{name(File), Bytes} || {File, {ok, Bytes}} <- Read]};
        [{File, Reason} | _] -> unseen(flame_prof_error:file(File, Reason))
    end.

%% Whole as far as it goes.
name(File) ->
    Name = unicode:characters_to_binary(filename:basename(File)),
    case filename:extension(Name) of
        <<".part">> -> filename:rootname(Name);
        _ -> Name
    end.

unseen(Reason) ->
    {unseen, unicode:characters_to_binary(flame_prof:format_error(Reason))}.
