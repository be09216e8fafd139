// The sample of the process that a sample waits for, at the same tick. At another node, whose files
// are in the profile, too, it is the tick nearest in time, by the clocks of both.

import { decodeName } from './symbols.js';

export class WaitedFor {
  constructor(profile, { rows, starts }) {
    Object.assign(this, { profile, rows, starts });
    this.processes = new Map(); // by OS process and pid, or registered name
    this.osPids = new Map(); // by the name of a node: of those that had it
    this.nodeTicks = null; // by OS process: [[us, file]]
    const { isOwn, tables: { process_pid: os, process_words: words, process_name: name } } =
        profile;
    os.forEach((pid, p) => {
      if (isOwn[p]) {
        const [, node] = /(?:^| )node=(\S+)/.exec(profile.text(words[p])) ?? [];
        if (node) put(this.osPids, decodeName(node), pid);
        return;
      }
      put(this.processes, `${pid} ${profile.pid(p)}`, p);
      if (name[p] > 0) put(this.processes, `${pid} =${decodeName(profile.text(name[p]))}`, p);
    });
  }

  /**
   * @param us of the sample that a chain begins with
   * @returns {process, row: -1: it has no sample then}; {row: -1}: of a process that is not in the
   *   profile; null: what has no stack
   */
  find(row, target, us) {
    const { profile } = this;
    const { process, time_us: time, file } = profile.columns;
    const text = profile.text(target);
    if (text.startsWith('<')) {
      return this.at(profile.tables.process_pid[process[row]], text, time[row], file[row]);
    }
    const slash = text.indexOf('/');
    const osPids = this.osPids.get(decodeName(text.slice(0, Math.max(0, slash))));
    if (osPids === undefined) return null;
    const tick = this.nearest(osPids, us);
    if (tick === null) return { row: -1 };
    const whom = text.slice(slash + 1);
    return this.at(tick.os, whom.startsWith('<') ? whom : `=${decodeName(whom)}`, tick.us,
        tick.file);
  }

  // Of two with one pid the one with a sample.
  at(os, whom, us, file) {
    let found = { row: -1 };
    for (const process of this.processes.get(`${os} ${whom}`) ?? []) {
      if (found.row < 0) found = { process, row: this.rowAt(process, us, file) };
    }
    return found;
  }

  rowAt(process, us, file) {
    const { rows, starts, profile: { columns } } = this;
    let [low, high] = [starts[process], starts[process + 1]];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (columns.time_us[rows[middle]] <= us) low = middle + 1;
      else high = middle;
    }
    for (let i = low - 1; i >= starts[process] && columns.time_us[rows[i]] === us; i--) {
      if (columns.file[rows[i]] === file) return rows[i];
    }
    return -1;
  }

  // A tick holds for as long as the shorter of the times to its neighbours, on both sides.
  nearest(osPids, us) {
    this.nodeTicks ??= ticksByNode(this.profile);
    let best = null;
    let least = Infinity;
    for (const os of osPids) {
      const ticks = this.nodeTicks.get(os) ?? [];
      const at = nearestPlace(ticks, us);
      const distance = at < 0 ? Infinity : Math.abs(ticks[at][0] - us);
      const held = Math.min(ticks[at]?.[0] - (ticks[at - 1]?.[0] ?? -Infinity),
          (ticks[at + 1]?.[0] ?? Infinity) - ticks[at]?.[0]);
      if (distance < least && (distance === 0 || (held < Infinity && distance <= held))) {
        least = distance;
        best = { os, us: ticks[at][0], file: ticks[at][1] };
      }
    }
    return best;
  }
}

function put(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}

function nearestPlace(ticks, us) {
  let [low, high] = [0, ticks.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ticks[middle][0] < us) low = middle + 1;
    else high = middle;
  }
  if (low === ticks.length || (low > 0 && us - ticks[low - 1][0] <= ticks[low][0] - us)) low--;
  return low;
}

function ticksByNode(profile) {
  const { process, time_us: time, file } = profile.columns;
  const byNode = new Map();
  let [lastUs, lastFile] = [-1, -1];
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      if (time[row] === lastUs && file[row] === lastFile) continue;
      [lastUs, lastFile] = [time[row], file[row]];
      put(byNode, profile.tables.process_pid[process[row]], [lastUs, lastFile]);
    }
  });
  for (const ticks of byNode.values()) ticks.sort((a, b) => a[0] - b[0]);
  return byNode;
}
