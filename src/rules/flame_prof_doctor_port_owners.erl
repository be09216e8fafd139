%% @private Who owns most ports.
-module(flame_prof_doctor_port_owners).

-export([opened/2, most/1]).

-type owner() :: {flame_prof_doctor_rule:process(), Owns :: pos_integer(), All :: pos_integer()}.

%% @doc Of those ports, or sockets of the module `socket', that were not there at the first look.
-spec opened(port_owners | socket_owners, flame_prof_doctor_rule:evidence()) -> owner() | none.
opened(Of, #{system := {First, Last}}) when is_map_key(Of, First), is_map_key(Of, Last) ->
    #{Of := Were} = First,
    #{Of := Are} = Last,
    Known = maps:from_keys(lists:append([Ports || Owners <- maps:values(Were),
        Ports <- maps:values(Owners)]), there),
    most(Are, fun(Port) -> not is_map_key(Port, Known) end);
opened(_, _) ->
    none.

%% @doc Of all.
-spec most(flame_prof_doctor_rule:evidence()) -> owner() | none.
most(#{system := {_, #{port_owners := #{} = Are}}}) -> most(Are, fun(_) -> true end);
most(_) -> none.

%% By names: of many that do the same each may have one. The process is that with the most.
most(Owners, IsMeant) ->
    Counts = [
        {lists:sum([N || {N, _} <- Of]), Name, lists:max(Of)}
     || {Name, Pids} <- maps:to_list(Owners),
        Of <- [[{length(lists:filter(IsMeant, Ports)), Pid} || {Pid, Ports} <- maps:to_list(Pids)]]
    ],
    case lists:max([{0, <<>>, none} | Counts]) of
        {N, Name, {_, Pid}} when N > 0, Name =/= <<>> ->
            {#{pid => flame_prof_doctor_rule:pid(Pid), name => Name}, N,
                lists:sum([Of || {Of, _, _} <- Counts])};
        _ ->
            none
    end.
