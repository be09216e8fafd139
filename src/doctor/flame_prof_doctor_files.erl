%% @private Folders of the doctor in a directory for temporary files, for its user only; and what is
%% read out of the files.
-module(flame_prof_doctor_files).

-export([new_folder/0, placed/2]).

%% @doc Mode 0700 before anything is in it.
-spec new_folder() -> file:filename().
new_folder() ->
    Base = os:getenv("TMPDIR", "/tmp"),
    Name = io_lib:format("flame_prof_doctor.~ts.~.36b",
        [os:getpid(), erlang:phash2({make_ref(), node()}, 1 bsl 32)]),
    Folder = filename:join(Base, lists:flatten(Name)),
    ok = file:make_dir(Folder),
    ok = file:change_mode(Folder, 8#700),
    Folder.

%% @doc Of another node, in a new folder here while Fun runs. Nothing of their names is a way out of
%% it.
-spec placed([flame_prof_doctor_evidence:file()], fun(([file:filename()]) -> Answer)) -> Answer.
placed(Files, Fun) ->
    Folder = new_folder(),
    try
        Paths = [{filename:join(Folder, filename:basename(Name)), Bytes} || {Name, Bytes} <- Files],
        ok = lists:foreach(
            fun({Path, Bytes}) -> ok = file:write_file(Path, Bytes, [raw, exclusive]) end, Paths),
        Fun([Path || {Path, _} <- Paths])
    after
        _ = file:del_dir_r(Folder)
    end.
