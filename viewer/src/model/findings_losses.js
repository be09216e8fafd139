// What the profile does not show for reasons of its own.

import { share } from './findings_text.js';
import { counted, exact } from './numbers.js';

// A loaded machine misses up to a third of the ticks, and a busy process changes while it is read:
// the shares in a profile stay right. Above these, pictures have holes.
const MISSED = 0.5;
const INCONSISTENT = 0.05;
const DROPPED = 0.001;
const DAMAGED = 0.001; // of the samples
const STEP = 6; // of the budget: from here on it leaves out processes, not only ticks

const VIEW = { measure: 'samples', show: 'all', levels: null, view: 'flame' };

export async function lossFindings(profile) {
  const counts = await lossesOf(profile);
  const said = [
    counts.missed > MISSED && [`missed ${share(counts.missed)} of its ticks`, counts.missed],
    counts.dropped > DROPPED && [`dropped ${share(counts.dropped)} of the samples`,
      counts.dropped],
    counts.inconsistent > INCONSISTENT && [`discarded ${share(counts.inconsistent)} of the `
      + 'samples as inconsistent', counts.inconsistent],
    counts.bad > DAMAGED && [`left ${counted(counts.damaged, 'damaged sample')} in the text`,
      counts.bad],
    counts.step >= STEP && ['sampled fewer processes to stay within the CPU budget (step '
      + `${exact(counts.step)})`, 0.5],
  ].filter(Boolean);
  if (said.length === 0) return [];
  return [{
    kind: 'losses',
    size: Math.max(...said.map(([, size]) => size)),
    title: `flame_prof ${said[0][0]}`,
    text: `flame_prof ${said.map(([text]) => text).join(', ')}: what was meanwhile is not here.`,
    processes: [],
    range: null,
    view: VIEW,
    function: '',
  }];
}

// Shares of what there was in the time of the profile: the counters begin with the session. The
// first flush of a session has no change since the one before, the first of a later file has.
export async function lossesOf(profile) {
  const figures = await profile.nodeFigures();
  const [change] = await figures.of('ticks', 'delta');
  const during = async (name) => {
    const [values, deltas] = await Promise.all([figures.of(name), figures.of(name, 'delta')]);
    const last = values[values.length - 1];
    return Number.isNaN(last) ? 0 : last - (change > 0 ? values[0] - deltas[0] : 0);
  };
  const [missed, ticks, dropped, lost, inconsistent, attempted, written, steps] =
      await Promise.all([...['missed', 'ticks', 'dropped', 'lost', 'inconsistent', 'attempted',
        'written'].map(during), figures.of('budget_step')]);
  const due = Math.max(attempted, written, 1);
  const damaged = profile.header.files.reduce((sum, { bad = 0, damaged: places = 0 }) =>
      sum + bad + places, 0);
  return {
    missed: missed / Math.max(1, missed + ticks),
    dropped: (dropped + lost) / due,
    inconsistent: inconsistent / due,
    damaged,
    bad: damaged / Math.max(1, profile.rows),
    step: steps.reduce((most, step) => Math.max(most, step || 0), 0),
  };
}
