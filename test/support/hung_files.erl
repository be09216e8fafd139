%% Files that hang, in a VM that has no other work: reading a FIFO that nobody writes takes a dirty
%% I/O scheduler for ever. No module is loaded then: Fun's are given, those of OTP are known.
-module(hung_files).

-export([with/3]).

%% While as many processes read one, or wait for a scheduler to read one.
with(Readers, Modules, Fun) ->
    Otp = [Module || Application <- [kernel, stdlib], ok <- [loaded(Application)],
        {ok, All} <- [application:get_key(Application, modules)], Module <- All],
    ok = code:ensure_modules_loaded([waiting | Modules] ++ Otp),
    Fifo = filename:join("/tmp", "flame_prof_hung_" ++ os:getpid()),
    [] = os:cmd("rm -f " ++ Fifo ++ "; mkfifo -m 600 " ++ Fifo),
    %% Before: to start a program looks at a file.
    Writer = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c",
        "while read -r _; do timeout 1 sh -c 'echo >" ++ Fifo ++ "'; done"]}]),
    Pids = [spawn(fun() -> prim_file:read_file(Fifo) end) || _ <- lists:seq(1, Readers)],
    Waiting = max(0, Readers - erlang:system_info(dirty_io_schedulers)),
    try
        waiting:eventually(fun() ->
            lists:last(statistics(run_queue_lengths_all)) =:= Waiting andalso
                lists:all(fun(Pid) ->
                    process_info(Pid, current_function) =:=
                        {current_function, {prim_file, read_file_nif, 1}}
                end, Pids)
        end),
        Fun()
    after
        waiting:eventually(fun() ->
            true = port_command(Writer, "\n"),
            not lists:any(fun is_process_alive/1, Pids)
        end),
        true = port_close(Writer),
        ok = file:delete(Fifo)
    end.

loaded(Application) ->
    case application:load(Application) of
        ok -> ok;
        {error, {already_loaded, Application}} -> ok
    end.
