%% @private Loads the libraries of an agent (flame_prof_agent): writes them to a folder of the node,
%% loads them, and deletes them at once. The first usable folder is taken; if there is none, the
%% errors of all folders are the reason.
%%
%% Each file operation runs in a process of its own and has a time limit: a file system may hang.
-module(flame_prof_agent_library).

-export([load/3]).

-import(flame_prof_agent, [in_time/2]).

-define(LATE, "no file is written there in time").
-define(ENVIRONMENT, flame_prof_attached).
%% The code server starts a process for a module that has code to run. If it cannot, it ends, and
%% the node ends with it.
-define(FREE_LEAST, 32).
%% The file name of what is lent.
-define(FROM, "flame_prof_attached").

%% @doc By the agent. `Note' is called with each folder before it is made. Returns the folder of the
%% library, or why there is none if the configuration allows that, and all folders that may exist.
-spec load(flame_prof_agent:config(), Note :: fun((file:filename()) -> term()),
    Until :: integer()) ->
    {ok, file:filename() | {none, Why :: binary()}, [file:filename()]}
    | {error, {library, unicode:chardata()}}.
load(Config, Note, Until) ->
    library(candidates(Until), Config, Note, Until).

%% This one has code to run when it is loaded.
load_nif({Module, Code}) ->
    case erlang:system_info(process_limit) - erlang:system_info(process_count) of
        Free when Free < ?FREE_LEAST ->
            {error, {module, io_lib:format("~b processes are free, ~b are needed",
                [Free, ?FREE_LEAST])}};
        _ ->
            loaded(code:load_binary(Module, ?FROM, Code))
    end.

loaded({module, _}) -> ok;
loaded({error, Reason}) -> {error, {module, atom_to_list(Reason)}}.

%% As this node sees its files, and as its user may use them. If the current folder is not reported
%% in time, all dirty I/O schedulers are busy: no file operation goes on.
candidates(Until) ->
    case in_time(fun prim_file:get_cwd/0, Until) of
        late -> late;
        Told -> flame_prof_agent:places([Folder || {ok, Folder} <- [Told]])
    end.

library(late, Config, Note, Until) ->
    one_of([], {Config, Note, Until}, [{"/", ?LATE}], []);
library(Candidates, Config, Note, Until) ->
    one_of(Candidates, {Config, Note, Until}, [], []).

one_of([], {#{may_lack := true}, _, _}, Why, Folders) ->
    Text = unicode:characters_to_binary(["it cannot be loaded there: ", reasons(Why)]),
    {ok, {none, Text}, Folders};
one_of([], _, Why, _Folders) ->
    {error, {library, reasons(Why)}};
one_of([Candidate | Candidates], {Config, Note, Until} = To, Why, Others) ->
    Folder = filename:join(Candidate, flame_prof_temporary:name()),
    Folders = [Folder | Others],
    _ = Note(Folder),
    case lodged(Candidate, Folder, Config, Until) of
        ok ->
            {ok, Folder, Folders};
        false ->
            Text = "no library may be run from there (noexec)",
            one_of(Candidates, To, [{Candidate, Text} | Why], Folders);
        late ->
            %% It is removed in the end: now that would hang as well.
            one_of(Candidates, To, [{Candidate, ?LATE} | Why], Folders);
        {error, Text} ->
            _ = in_time(fun() -> flame_prof_agent:remove(Folder) end, Until),
            one_of(Candidates, To, [{Candidate, text(Text)} | Why], Folders)
    end.

%% A loader's names the file, which is in another folder each time.
text(Text) ->
    re:replace(Text, "/[^ ]*/flame_prof\\.[^ ]*/", "", [global, unicode, {return, list}]).

%% /tmp, /var/tmp: file too large; /dev/shm: ...
reasons(Why) ->
    Texts = lists:usort([Text || {_, Text} <- Why]),
    lists:join("; ", [
        [lists:join(", ", [Folder || {Folder, T} <- lists:reverse(Why), T =:= Text]), ": ", Text]
     || Text <- Texts
    ]).

%% Nothing lies there any more when it is mapped.
lodged(Candidate, Folder, Config, Until) ->
    #{library := Libraries, companions := Companions, modules := Modules} = Config,
    Nifs = [lists:keyfind(Module, 1, Modules) || {Module, _} <- Libraries],
    Own = [{atom_to_list(Module) ++ ".so", Library} || {Module, Library} <- Libraries],
    Place = fun() -> flame_prof_temporary:may_execute(Candidate) andalso placed(Folder, Own) end,
    Complete = fun() -> in_time(fun() -> written(Folder, Companions) end, Until) end,
    Outcome = mapped(in_time(Place, Until), Folder, Nifs, Complete),
    Delete = fun() ->
        [file:delete(filename:join(Folder, Name), [raw]) || {Name, _} <- Own ++ Companions]
    end,
    _ = Outcome =/= late andalso in_time(Delete, Until),
    Outcome.

mapped(ok, Folder, Nifs, Complete) ->
    case mapped(Folder, Nifs) of
        ok ->
            ok;
        {error, _} ->
            case Complete() of
                ok -> mapped(Folder, Nifs);
                Failed -> Failed
            end
    end;
mapped(Failed, _Folder, _Nifs, _Complete) ->
    Failed.

placed(Folder, Files) ->
    ok = done(flame_prof_temporary:make_folder(Folder)),
    written(Folder, Files).

written(Folder, Files) ->
    lists:foreach(
        fun({Name, Bytes}) ->
            done(flame_prof_temporary:write_file(filename:join(Folder, Name), Bytes))
        end,
        Files
    ).

done(ok) -> ok;
done({error, _} = Error) -> throw(Error).

mapped(Folder, Nifs) ->
    ok = application:set_env(?ENVIRONMENT, library, Folder),
    Outcome = each_mapped(Nifs),
    ok = flame_prof_agent:forget(),
    Outcome.

each_mapped([]) ->
    ok;
each_mapped([{Module, _} = Nif | Others]) ->
    case maybe_mapped(load_nif(Nif), Module) of
        ok ->
            case each_mapped(Others) of
                ok -> ok;
                {error, _} = Error -> taken_away(Module, Error)
            end;
        {error, _} = Error ->
            taken_away(Module, Error)
    end.

taken_away(Module, Error) ->
    _ = [Step(Module) || Step <- [fun code:purge/1, fun code:delete/1, fun code:purge/1]],
    Error.

%% That the agent's module is there says nothing: flame_prof_nif:load_lent/1. The other library is
%% loaded by a call.
maybe_mapped(ok, flame_prof_nif) ->
    case flame_prof_agent:failure() of
        none -> ok;
        {_, Text} -> {error, Text}
    end;
maybe_mapped(ok, Module) ->
    case Module:load() of
        ok -> ok;
        {error, {_, Text}} -> {error, Text}
    end;
maybe_mapped({error, {_, Text}}, _Module) ->
    {error, Text}.
