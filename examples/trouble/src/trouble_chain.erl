%% Servers that call each other, each waiting for the next: the whole chain has the speed
%% of its last one, which waits for a disk.
-module(trouble_chain).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/2, start_client/1, init_client/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(CLIENTS, 12).
-define(READ_MS, 20).
%% Work enough to be among the hundred busiest processes.
-define(STEPS, 2000).
-define(STEPS_OF_CLIENT, 8000).

%% The clients last: they stop first.
children() ->
    [server(Name, Next) || {Name, Next} <- [{api_disk, none}, {api_store, api_disk},
                                            {api_auth, api_store}, {api_front, api_auth}]] ++
        [#{id => {api_client, N}, start => {?MODULE, start_client, [N]}}
         || N <- lists:seq(1, ?CLIENTS)].

server(Name, Next) ->
    #{id => Name, start => {?MODULE, start_link, [Name, Next]}}.

truth() ->
    #{problem => chain,
      kind => [chain, bottleneck],
      severity => warning,
      finding => server,
      process => api_disk,
      function => <<"trouble_chain:read_block/1">>,
      sentence => <<"12 processes wait for api_front, which waits for api_auth, api_store and "
          "api_disk; api_disk is in trouble_chain:read_block/1.">>}.

start_link(Name, Next) ->
    gen_server:start_link({local, Name}, ?MODULE, Next, []).

init(Next) ->
    {ok, Next}.

handle_call({read, Block}, _From, none) ->
    {reply, read_block(Block), none};
handle_call({read, Block}, _From, Next) ->
    _ = work(?STEPS, Block),
    {reply, gen_server:call(Next, {read, Block}, infinity), Next}.

handle_cast(_, Next) ->
    {noreply, Next}.

read_block(Block) ->
    timer:sleep(?READ_MS),
    {block, Block, work(?STEPS, Block)}.

start_client(N) ->
    proc_lib:start_link(?MODULE, init_client, [N]).

init_client(N) ->
    register(list_to_atom("api_client_" ++ integer_to_list(N)), self()),
    proc_lib:init_ack({ok, self()}),
    client(N).

client(Block) ->
    {block, Block, _} = gen_server:call(api_front, {read, Block}, infinity),
    _ = work(?STEPS_OF_CLIENT, Block),
    client(Block + 1).

work(0, Sum) -> Sum;
work(N, Sum) -> work(N - 1, erlang:phash2({N, Sum})).
