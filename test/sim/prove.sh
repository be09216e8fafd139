#!/bin/bash
# Does the simulation find anything? Builds the sampler or the writer with one mistake at a time,
# in copies below _build, and fails unless sim fails with each.
#
#   test/sim/prove.sh [WORD]     only the mistakes with that word in their names
#
# A mistake whose name begins with "a check" must be found by an FP_CHECK of the product.
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${CC:=gcc}"

# What is wrong and in which file below c_src; the text that is taken out, and what stands there.
mistakes='
missed ticks are undercounted: session/sampler_thread
- (uint64_t)(passed - s->tick)
+ (uint64_t)(passed - s->tick - 1)
ticks have no jitter: session/sampler_thread
- fp_tick_delay_ns(interval, fp_random(&s->random))
+ 0
the second selection is not early: session/sampler_thread
- pass_ms = SECOND_SELECTION_MS
+ (void)0
the writer is not in the budget: session/sampler_thread
- fp_counters_get(counters, FP_COUNTER_writer_cpu_ns)
+ 0
the interval is not what it is governed to be: session/sampler_thread
- * s->governed.interval_factor
+ * 1
the start is not moved with the interval: session/sampler_thread
- s->start_ns += s->tick * interval;
the lookback is twice as long: store/sink
- first->ended_ns > lookback_ns
+ first->ended_ns > 2 * lookback_ns
the lookback is half as long: store/sink
- first->ended_ns > lookback_ns
+ first->ended_ns > lookback_ns / 2
a finished file counts twice: store/sink
- if (sink->file.descriptor >= 0)
-         open = (
+ open = (
retention forgets the open file: store/sink
- sink->kept.bytes + sink->file.size >
+ sink->kept.bytes >
what is dropped is not counted: store/sink
- sink->gauges.expired += block->weight;
a block that failed is not written again: store/sink
- if (err != 0)
-             break;
the own sample moves the times of others: session/writer
- writer->drained_ns / 1000
+ fp_monotonic_ns() / 1000
a lost sample is not counted: session/writer
- fp_counters_add(counters, FP_COUNTER_lost, weight);
merged samples are forgotten at a flush: session/writer
- writer->published_ms = fp_monotonic_ms();
-     write_merged(writer, FP_MERGED_ALL);
selections stay as frequent as the second: session/sampler_thread
- set_slice(s, s->options.select_interval_ms);
-     s->slots_due
+ s->slots_due
a dropped sample has a history: session/series
- if (record == NULL)
-         return FP_EFULL;
+ if (record == NULL) { memcpy(series->value, value, sizeof series->value); return FP_EFULL; }
deltas are of the sample before that: session/series
- memcpy(series->value, value, sizeof series->value);
+ if (series->value[0] == 0) memcpy(series->value, value, sizeof series->value);
the lookback is dropped in halves: store/sink
- BUFFER_PIECES 8u
+ BUFFER_PIECES 2u
ticks that wait have one time: session/on_cpu
- pending->last_us = s->tick_us;
-         return 0;
+ return 0;
a weight is not counted: store/blocks
- blocks->open.weight += weight;
what waits is not counted: store/blocks
- blocks->waiting_weight += weight;
a flush writes no open block: store/sink
- if (err == 0 && fp_blocks_end(sink->blocks) != 0)
+ if (0)
a step of the clock is in no other file: session/writer
- && llabs(step_us - writer->step_us) < least
all files have the clock of the first: store/sink
- sink->offset_ns = offset_ns;
the next tick comes after the drift: session/sampler_thread
- s->start_ns + s->tick * interval +
+ fp_monotonic_ns() + interval +
reductions of a turn are not counted: erts/capture/explain
- *reductions += CONTEXT_REDUCTIONS - left;
+ (void)0;
text of replaced code is kept: session/writer
- fp_perf_script_recode(writer->script);
blocks do not begin with whole samples: session/writer
- fp_perf_script_set_block(
+ if (0) fp_perf_script_set_block(
the file keeps the offset of its clock: session/writer
- offset_us += step_us;
a dropped sample is not counted: session/sampler
- fp_sampler_count(s, FP_COUNTER_dropped, 1);
a stack is not read again behind its structure: session/sampler
- if (s->copy[i + k].is_whole)
a repeat is found by its reductions: session/sampler
- memcmp(&words, &target->words, sizeof words) == 0
+ words.word[FP_FIELD_reds] == word[FP_FIELD_reds]
what was read is taken for what was sampled: session/sampler
- target->is_of_words && memcmp(
+ target->series.sampled && memcmp(
a repeat has the words of the first attempt: session/sampler
- fp_process_words_read(s->layout, bytes, &target->words);
-     return 0;
+ return 0;
a second attempt is not verified: session/sampler
- if (copy->is_whole) {
+ if (1) {
ticks that wait have no sample: session/on_cpu
- pending->ticks++;
ticks that wait have the time of the first: session/on_cpu
- passed * (n - k) / (n - 1)
+ passed
a capture that is refused is not counted: session/on_cpu
- fp_sampler_give_up(s, FP_COUNTER_inconsistent_late, 1);
what is pending at the end is forgotten: session/on_cpu
- fp_sampler_give_up(s, FP_COUNTER_inconsistent_late, s->pending[at].ticks);
an idle scheduler is not attempted: session/sampler
- fp_sampler_count(s, FP_COUNTER_attempted, 1);
-     target->series.scheduler
+ target->series.scheduler
the first of the schedulers is left out: session/on_cpu
- for (unsigned at = 0; at < s->schedulers && at < online; at++)
+ for (unsigned at = 1; at < s->schedulers && at < online; at++)
a process is new each time it is met: session/targets
- if (!target->is_live
+ if (1 + !target->is_live
a disk that has failed is not tried again: store/sink
- else if (sink->is_failing && is_due(sink))
+ else if (0)
the ring waits for a flush: session/writer
- is_busy = drain(writer) >
+ is_busy = 0 >
a check finds a record that ends behind what is published: base/ring
- (uint32_t)need, 0}
+ (uint32_t)need + 8, 0}
a check finds a process that is not in the hash of targets: session/targets
-         *place = slot;
-     }
-     s->target[slot].is_kept
+     }
+     s->target[slot].is_kept
a check finds a block that is counted less than it is: store/blocks
- blocks->waiting_text += size;
a governed second may use twice the budget: base/governor
- return INT64_C(10000) * USED_PERCENT
+ return INT64_C(20000) * USED_PERCENT
'

build=_build/ctest/prove
only=${1:-}
libraries="$(pkg-config --libs libuv libzstd zlib 2>/dev/null || echo -luv -lzstd -lz) -ldl -lm"
compile="$CC -std=c11 -O1 -w -pthread -DFP_SLOW_CHECKS -D_GNU_SOURCE= -Ic_src -Itest/c"
LOCK=ctest.prove tools/locked.sh "${MAKE:-make}" -j2 -f tools/test_c.mk VARIANT=prove CC="$CC" \
    SANITIZE= ONLY=sim programs >/dev/null || exit 1

prove_one() { # name, file, what, becomes
    local out=$build/mistake
    mkdir -p "$out" && rm -f "$out"/*
    WHAT=$3 BECOMES=$4 perl -0pe '$n += s/\Q$ENV{WHAT}\E/$ENV{BECOMES}/; END { exit !$n }' \
        "c_src/$2.c" >"$out/mistake.c" || {
        echo "  wrong  $2.c does not have: $3" >&2
        return 1
    }
    # shellcheck disable=SC2086
    $compile -c -o "$out/mistake.o" "$out/mistake.c" &&
        $CC -pthread -rdynamic -Wl,--wrap=clock_gettime,--wrap=clock_nanosleep -o "$out/sim" \
            "$build/test/sim/sim.o" "$out/mistake.o" -Wl,--start-group "$build/helpers.a" \
            "$build/flame_prof.a" -Wl,--end-group $libraries || {
        echo "  wrong  \"$1\" cannot be built" >&2
        return 1
    }
    (timeout 300 "$out/sim" >"$out/said") 2>/dev/null # where the shell tells of the abort
    grep -q '^not ok' "$out/said" || {
        echo "  wrong  \"$1\" is not found" >&2
        return 1
    }
    case $1 in "a check "*)
        grep -q 'a broken invariant: ' "$out/said" || {
            echo "  wrong  \"$1\" is found by no check" >&2
            return 1
        }
        ;;
    esac
    echo "  found  $1: $(sed -n 's/^not ok [0-9]* - //p' "$out/said")"
}

# A program that ends by a mistake leaves no core file.
ulimit -c 0
found=0 wrong=0 name=
end() { # of the mistake that was read
    [ -n "$name" ] || return
    case $name in *"$only"*)
        if prove_one "$name" "$file" "$what" "$becomes"; then
            found=$((found + 1))
        else
            wrong=$((wrong + 1))
        fi
        ;;
    esac
}
while IFS= read -r line; do
    case $line in
    '- '*) what=${what:+$what$'\n'}${line#- } ;;
    '+ '*) becomes=${becomes:+$becomes$'\n'}${line#+ } ;;
    *)
        end
        name=${line%: *} file=${line##*: } what='' becomes=''
        ;;
    esac
done <<<"$mistakes"
echo "$found mistakes found, $wrong not"
[ $wrong = 0 ]
