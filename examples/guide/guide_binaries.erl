%% Memory grows, but no heap does: who holds on to binaries?
-module(guide_binaries).

-export([run/1]).

run(Directory) ->
    Leaker = spawn(fun() -> leak([]) end),
    true = register(session_cache, Leaker),
    {ok, _} = flame_prof:start(#{
        dir => Directory,
        select => #{top => 20, by => bin_vheap_size, interval => 500}
    }),
    timer:sleep(3000),
    {ok, #{files := Files}} = flame_prof:stop(),
    %% What survives a collection and is kept, in words of 8 bytes.
    flame_prof:hot(Files, #{by => bin_old_vheap_size, top => 3}).

%% It keeps a hundred bytes of each request, and with them the request.
leak(Heads) ->
    Request = binary:copy(<<"a request">>, 10000),
    <<Head:100/binary, _/binary>> = Request,
    timer:sleep(1),
    leak([Head | Heads]).
