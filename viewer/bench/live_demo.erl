%% The demo; and while the file FOLLOWED is there, the session is told each two seconds that a page
%% follows its file, as a viewer of the same node does.
-module(live_demo).

-export([main/0]).

main() ->
    Dir = os:getenv("DEMO_DIR"),
    Followed = os:getenv("FOLLOWED"),
    _ = spawn(fun() -> follow(filename:join(Dir, "*.part"), Followed) end),
    demo:main().

follow(Pattern, Followed) ->
    timer:sleep(2000),
    _ = [flame_prof_session:follow(list_to_binary(File))
        || filelib:is_file(Followed), File <- filelib:wildcard(Pattern)],
    follow(Pattern, Followed).
