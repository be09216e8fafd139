// What the profile does not show for reasons of its own.

/**
 * Shares of what there was in the time of the profile: the counters begin with the session. The
 * first flush of a session has no change since the one before, the first of a later file has.
 */
export async function lossesOf(profile) {
  const figures = await profile.nodeFigures();
  const [change] = await figures.of('ticks', 'delta');
  const during = async (name) => {
    const [values, deltas] = await Promise.all([figures.of(name), figures.of(name, 'delta')]);
    const last = values[values.length - 1];
    return Number.isNaN(last) ? 0 : last - (change > 0 ? values[0] - deltas[0] : 0);
  };
  const [missed, ticks, dropped, lost, inconsistent, attempted, written] =
      await Promise.all(['missed', 'ticks', 'dropped', 'lost', 'inconsistent', 'attempted',
        'written'].map(during));
  const due = Math.max(attempted, written, 1);
  return {
    missed: missed / Math.max(1, missed + ticks),
    dropped: (dropped + lost) / due,
    inconsistent: inconsistent / due,
  };
}
