%% @private Folders of the doctor in a directory for temporary files, for its user only; and what is
%% read out of the files.
-module(flame_prof_doctor_files).

-export([new_folder/0, placed/2]).

%% @doc Mode 0700 before anything is in it.
-spec new_folder() -> {ok, file:filename()} | {error, flame_prof:reason()}.
new_folder() ->
    Base = os:getenv("TMPDIR", "/tmp"),
    Name = io_lib:format("flame_prof_doctor.~ts.~.36b",
        [os:getpid(), erlang:phash2({make_ref(), node()}, 1 bsl 32)]),
    Folder = filename:join(Base, lists:flatten(Name)),
    case file:make_dir(Folder) of
        ok ->
            ok = file:change_mode(Folder, 8#700),
            {ok, Folder};
        {error, Reason} ->
            {error, flame_prof_error:file(Base, Reason)}
    end.

%% @doc Of another node, in a new folder here while Fun runs. Nothing of their names is a way out of
%% it.
-spec placed([flame_prof_doctor_evidence:file()], fun(([file:filename()]) -> Answer)) ->
    {ok, Answer} | {error, flame_prof:reason()}.
placed(Files, Fun) ->
    case new_folder() of
        {ok, Folder} ->
            try
                written([{filename:join(Folder, filename:basename(Name)), Bytes}
                    || {Name, Bytes} <- Files], [], Fun)
            after
                _ = file:del_dir_r(Folder)
            end;
        {error, _} = Error ->
            Error
    end.

written([], Paths, Fun) ->
    {ok, Fun(lists:reverse(Paths))};
written([{Path, Bytes} | Files], Paths, Fun) ->
    case file:write_file(Path, Bytes, [raw, exclusive]) of
        ok -> written(Files, [Path | Paths], Fun);
        {error, Reason} -> {error, flame_prof_error:file(Path, Reason)}
    end.
