// What the profiler told of itself and of the node at each flush (doc/format.md).

/**
 * @returns {timesUs: when, of(name, kind) => Promise of a Float64Array with a number for each
 * time, NaN where the file does not tell; kind is 'value' or 'delta', the change since the flush
 * before}. Of several nodes it is the one that told the most.
 */
export async function nodeFigures(profile) {
  const rows = await rowsOfOneNode(profile);
  return {
    timesUs: rows.map((row) => profile.columns.time_us[row]),
    of: async (name, kind = 'value') => {
      const metric = profile.metric(name);
      return metric < 0 ? new Float64Array(rows.length).fill(NaN)
          : profile.numbersAt(metric, kind, rows);
    },
  };
}

async function rowsOfOneNode(profile) {
  const { ownRows, isOwn, tables } = profile;
  const many = isOwn.reduce((sum, n) => sum + n, 0) > 1;
  await profile.need('time_us', ...(many ? ['process'] : []));
  if (!many) return Array.from(ownRows);
  const most = isOwn.reduce((best, is, p) =>
      (is && !(tables.process_samples[best] >= tables.process_samples[p]) ? p : best), -1);
  return Array.from(ownRows).filter((row) => profile.columns.process[row] === most);
}
