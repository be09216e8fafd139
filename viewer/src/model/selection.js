// Which samples are looked at: a range of time, processes, statuses.

/**
 * Rows of the profiler itself are never among them.
 *
 * @param range [fromUs, toUs) since the profile's start, or null: all of it
 * @param only {pids: [text], isIdleHidden}
 */
export async function select(profile, range, only) {
  const filters = [only.pids.length > 0 || profile.hasOwn ? 'process' : '', only.isIdleHidden ? 'status' : ''];
  await profile.need('time_us', ...filters.filter(Boolean));
  const [fromUs, toUs] = range ?? [0, Infinity];
  const [from, to] = profile.rowRange(fromUs, toUs);
  return {
    profile,
    from,
    to,
    fromUs,
    toUs,
    isTimeChecked: !profile.isOrdered && range !== null,
    process: processMask(profile, only.pids),
    status: only.isIdleHidden ? statusMask(profile) : null,
  };
}

// By number of the process: 1 where it is wanted. null: all are.
function processMask(profile, pids) {
  if (pids.length === 0 && !profile.hasOwn) return null;
  const wanted = new Set(pids);
  const isWanted = (p) => !profile.isOwn[p] && (pids.length === 0 || wanted.has(profile.pid(p)));
  return Uint8Array.from({ length: profile.processCount }, (_, p) => Number(isWanted(p)));
}

function statusMask(profile) {
  return Uint8Array.from(profile.statuses, (status) => Number(status !== 'waiting'));
}

/** Calls `each(row)` for every sample of it, in the order of the file. */
export function eachRow(selection, each) {
  const { from, to, process, status, isTimeChecked, fromUs, toUs, profile } = selection;
  const columns = profile.columns;
  if (process === null && status === null && !isTimeChecked) {
    for (let row = from; row < to; row++) each(row);
    return;
  }
  for (let row = from; row < to; row++) {
    if (process !== null && process[columns.process[row]] === 0) continue;
    if (status !== null && status[columns.status[row]] === 0) continue;
    if (isTimeChecked && (columns.time_us[row] < fromUs || columns.time_us[row] >= toUs)) continue;
    each(row);
  }
}
