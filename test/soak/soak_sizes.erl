%% A million samples of processes that collect in all ways, none with a size that its process never
%% had (test/support/size_storm.erl), and a summary. For a node of its own: it halts.
-module(soak_sizes).

-export([main/1]).

-define(SAMPLES, 1000000).
-define(ROUND_MS, 20000).
%% A machine that is slow takes that many rounds, and no more.
-define(ROUNDS_MOST, 100).

%% As soak:main/1; of these only the folder and the name of the summary matter.
main([_Seconds, _Hz, _Seed, Dir, Out]) ->
    Found = rounds(Dir, #{samples => 0, collecting => 0, inconsistent => 0, wrong => #{}}, 1),
    #{samples := Samples, collecting := Collecting, wrong := Wrong, inconsistent := Given} = Found,
    Is = case Wrong =:= #{} andalso Samples >= ?SAMPLES of true -> "good"; false -> "FAILED" end,
    Text = io_lib:format(
        "OTP ~s, ~s: ~b samples, ~b of them in a collection, ~b with a size that the process never "
        "had; ~b of all samples were given up as inconsistent~n~ts",
        [erlang:system_info(otp_release), Is, Samples, Collecting,
            lists:sum([N || {N, _} <- maps:values(Wrong)]), Given,
            [io_lib:format("  ~p~n", [One]) || One <- maps:to_list(Wrong)]]),
    ok = file:write_file([Out, ".txt"], unicode:characters_to_binary(Text)),
    erlang:halt(case Is of "good" -> 0; _ -> 1 end).

rounds(_Dir, #{samples := Samples} = Found, Round) when Samples >= ?SAMPLES; Round > ?ROUNDS_MOST ->
    Found;
rounds(Dir, Found, Round) ->
    Here = filename:join(Dir, integer_to_list(Round)),
    ok = file:make_dir(Here),
    One = size_storm:run(#{for_ms => ?ROUND_MS, dir => Here}),
    ok = file:del_dir_r(Here),
    Add = fun(Key) -> maps:get(Key, Found) + maps:get(Key, One) end,
    Wrong = maps:merge_with(fun(_, {A, First}, {B, _}) -> {A + B, First} end,
        maps:get(wrong, Found), maps:get(wrong, One)),
    rounds(Dir, #{samples => Add(samples), collecting => Add(collecting),
        inconsistent => Add(inconsistent), wrong => Wrong}, Round + 1).
