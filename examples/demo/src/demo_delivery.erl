%% A parcel on its way through the states of a gen_statem, over and over.
-module(demo_delivery).
-behaviour(gen_statem).

-export([start_link/1]).
-export([init/1, callback_mode/0, packing/3, travelling/3, delivered/3]).

start_link(N) ->
    gen_statem:start_link(?MODULE, N, []).

init(N) ->
    rand:seed(exsss, 3000 + N),
    {ok, packing, #{parcel => N, route => []}}.

callback_mode() ->
    [state_functions, state_enter].

packing(enter, _Old, Data) ->
    {keep_state, Data#{route := route()}, after_ms(30)};
packing(state_timeout, next, Data) ->
    {next_state, travelling, Data}.

travelling(enter, _Old, _Data) ->
    {keep_state_and_data, after_ms(20)};
travelling(state_timeout, next, #{route := [_Last]} = Data) ->
    {next_state, delivered, Data};
travelling(state_timeout, next, #{route := [Here | Rest]} = Data) ->
    {keep_state, Data#{route := nearest_first(Here, Rest)}, after_ms(20)}.

delivered(enter, _Old, _Data) ->
    {keep_state_and_data, after_ms(50)};
delivered(state_timeout, next, Data) ->
    {next_state, packing, Data}.

after_ms(Ms) ->
    [{state_timeout, Ms + rand:uniform(Ms), next}].

route() ->
    [{rand:uniform(1000), rand:uniform(1000)} || _ <- lists:seq(1, 30)].

nearest_first(Here, Places) ->
    [Place || {_, Place} <- lists:sort([{distance(Here, Place), Place} || Place <- Places])].

distance({X1, Y1}, {X2, Y2}) ->
    math:sqrt((X2 - X1) * (X2 - X1) + (Y2 - Y1) * (Y2 - Y1)).
