// The sample of the process that a sample waits for, at the same tick. At another node, whose files
// are in the profile, too, it is the tick nearest in time: c_src/report/other_nodes.h.

import { lowerBound } from './sorted.js';
import { decodeName } from './symbols.js';

export class WaitedFor {
  constructor(profile, { rows, starts }) {
    const { isOwn, tables: { process_pid: os, process_name: name }, header: { files } } = profile;
    Object.assign(this, { profile, rows, starts });
    this.nodes = files.map(({ node }) => node && decodeName(node)); // by file
    this.ticks = null; // by node: [[us, file]]
    this.processes = new Map(); // by what can be waited for
    os.forEach((pid, p) => {
      if (isOwn[p]) return;
      put(this.processes, `${pid} ${profile.pid(p)}`, p);
      put(this.processes, `/${profile.pid(p)}`, p);
      if (name[p] > 0) put(this.processes, `/=${decodeName(profile.text(name[p]))}`, p);
    });
  }

  /**
   * @param us of the sample that a chain begins with
   * @returns {process, row: -1: it has no sample then}; {row: -1}: of a process that is unknown;
   *   null: what has no stack
   */
  find(row, target, us) {
    const { profile, nodes } = this;
    const { process, time_us: time, file } = profile.columns;
    const text = profile.text(target);
    if (text.startsWith('<')) {
      return this.at(`${profile.tables.process_pid[process[row]]} ${text}`, time[row], file[row]);
    }
    const slash = text.indexOf('/');
    const node = slash > 0 && decodeName(text.slice(0, slash));
    if (!node || !nodes.includes(node)) return null;
    const tick = this.tickOf(node, us);
    const whom = text.slice(slash + 1);
    const found = tick && this.at(whom.startsWith('<') ? `/${whom}` : `/=${decodeName(whom)}`,
        ...tick);
    return found?.row >= 0 ? found : { row: -1 };
  }

  // Of two with one pid the one with a sample.
  at(whom, us, file) {
    let found = { row: -1 };
    for (const process of this.processes.get(whom) ?? []) {
      if (found.row < 0) found = { process, row: this.rowAt(process, us, file) };
    }
    return found;
  }

  rowAt(process, us, file) {
    const { rows, starts, profile: { columns } } = this;
    const at = lowerBound(starts[process], starts[process + 1], (i) =>
        columns.time_us[rows[i]] < us);
    for (let i = at; i < starts[process + 1] && columns.time_us[rows[i]] === us; i++) {
      if (columns.file[rows[i]] === file) return rows[i];
    }
    return -1;
  }

  // The nearest one. A tick holds for the shorter of the times to its neighbours.
  tickOf(node, us) {
    this.ticks ??= this.findTicks();
    const ticks = this.ticks.get(node) ?? [];
    const next = lowerBound(0, ticks.length, (i) => ticks[i][0] < us);
    const gap = (i) => (i > 0 && i < ticks.length ? ticks[i][0] - ticks[i - 1][0] : Infinity);
    const held = (i) => (ticks.length === 1 ? 0 : Math.min(gap(i), gap(i + 1)));
    const away = (i) => Math.abs(ticks[i][0] - us);
    const [best] = [next - 1, next].filter((i) => ticks[i] && away(i) <= held(i))
        .sort((a, b) => away(a) - away(b));
    return ticks[best];
  }

  findTicks() {
    const { nodes, profile } = this;
    const { time_us: time, file } = profile.columns;
    const ticks = new Map();
    let last = -1;
    profile.eachRun(0, profile.rows, (first, end) => {
      for (let row = first; row < end; row++) {
        if (last >= 0 && time[row] === time[last] && file[row] === file[last]) continue;
        last = row;
        if (nodes[file[row]]) put(ticks, nodes[file[row]], [time[row], file[row]]);
      }
    });
    for (const some of ticks.values()) some.sort((a, b) => a[0] - b[0]);
    return ticks;
  }
}

function put(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}
