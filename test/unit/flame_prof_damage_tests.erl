-module(flame_prof_damage_tests).

-include_lib("eunit/include/eunit.hrl").

%% `make fuzz-files' reads 10,000, of another seed each time.
damaged_files_are_read_alike_by_two_readers_test() ->
    try ?assertEqual([], damage:run(200, 1, "/tmp"))
    after ok = applications:stop([flame_prof, inets])
    end.
