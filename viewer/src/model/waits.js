// Waits of processes, as their samples tell. A sample holds until the next one of its process.

import { placeAt } from './by_process.js';
import { short } from './numbers.js';
import { sampledWithin } from './steps.js';
import { decodeName } from './symbols.js';

/** null: no sample tells. */
export async function waitsOf(profile) {
  const targets = await profile.word('waits_for');
  if (targets === null) return null;
  const requests = await profile.word('request');
  const { usualUs } = await profile.ticks();
  return new Waits(profile, await profile.byProcess(), { targets, requests, usualUs });
}

class Waits {
  constructor(profile, { rows, starts }, { targets, requests, usualUs }) {
    const { columns: { process, time_us: time }, tables: { process_pid: os }, looks } = profile;
    Object.assign(this, { profile, rows, starts, targets, requests, time, looks, usualUs });
    this.within = sampledWithin(usualUs);
    this.waiters = [...new Set(process.filter((_, row) => targets[row] > 0))];
    this.byPid = new Map(Array.from(os, (_, p) => [this.keyOf(p, profile.pid(p)), p]));
  }

  // A pid means a process of the same node.
  keyOf(process, pid) {
    return `${this.profile.tables.process_pid[process]} ${pid}`;
  }

  /** All waits at a moment in which one of these processes has a part. */
  at(us, processes) {
    return this.of(us, this.waiters).filter(({ process, target }) =>
        processes.includes(process) || processes.includes(target));
  }

  /** The waits of these processes at a moment. */
  of(us, processes) {
    return processes.map((process) => this.waitAt(process, us)).filter(Boolean);
  }

  // {process, target: a process, or undefined; text: of the target and the request; fromUs, toUs:
  // between the first and the last sample on end that tells it}; or null.
  waitAt(process, us) {
    const { rows, starts, time, targets, requests, looks, within } = this;
    const [first, end] = [starts[process], starts[process + 1]];
    let from = placeAt(this, time, process, us);
    const row = rows[from];
    if (from < 0 || targets[row] === 0) return null;
    let to = from + 1;
    // Whether the sample before this one holds until it.
    const isNext = (i) => time[rows[i]] - time[rows[i - 1]] <= within || looks?.[rows[i]] > 1;
    const isSame = (i) => targets[rows[i]] === targets[row]
        && requests[rows[i]] === requests[row];
    while (to < end && isNext(to) && isSame(to)) to++;
    while (from > first && isNext(from) && isSame(from - 1)) from--;
    const toUs = to < end && isNext(to) ? time[rows[to]] : time[rows[to - 1]] + this.usualUs;
    return us < toUs ? this.told(process, row, time[rows[from]], toUs) : null;
  }

  told(process, row, fromUs, toUs) {
    const { profile, targets, requests } = this;
    const text = profile.text(targets[row]);
    const target = this.byPid.get(this.keyOf(process, text));
    const name = target === undefined ? decodeName(text) : profile.label(target);
    const request = requests[row] === 0 ? '' : `: ${decodeName(profile.text(requests[row]))}`;
    return { process, target, fromUs, toUs,
      text: `waits for ${name}${request}, ${short(toUs - fromUs, 'us')}` };
  }
}
