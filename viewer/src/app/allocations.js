// Of a file of allocations, in place of the processes: who has allocated, and the long collections
// of garbage. It is a script of its own, which the page loads when it is asked for.

import { html, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { allocatedTrackOf } from '../draw/allocated_track.js';
import { TableView } from '../draw/table_view.js';
import { allocatedBy, allocatedOver, collectionsOf, doubtsOf } from '../model/allocations.js';
import { counted, exact, percent, seconds, short } from '../model/numbers.js';
import { select } from '../model/selection.js';

const MS = 1000;

export { doubtsOf };

const BAR_LEAST = 4; // pixels
const BAR_SAMPLES = 10; // as many as a bar has on average: fewer would be chance

/** What was allocated over time, for the timeline: bars of some of its columns. */
export async function allocatedTrack(profile, { fromUs, cells, cellUs }) {
  const within = Math.min(1, (cells * cellUs) / profile.durationUs);
  const width = Math.ceil(Math.max(BAR_LEAST,
      (BAR_SAMPLES * cells) / (profile.lookCount * within || 1)));
  const rates = await allocatedOver(profile, { fromUs, cells: Math.ceil(cells / width),
    cellUs: cellUs * width });
  rates[rates.length - 1] *= width / (cells - (rates.length - 1) * width); // it may be narrower
  return allocatedTrackOf(rates, width);
}

export class Board {
  constructor(app) {
    this.app = app;
    this.total = 0;
    this.bar = h('div', { class: 'bar' });
    this.title = h('h2', {});
    const pick = ({ pid }) =>
        app.set({ pids: app.state.pids.includes(pid) ? [] : [pid], zoom: [] });
    this.processes = new TableView('processes', processColumns(() => this.total), 'allocated',
        pick);
    this.collections = new TableView('collections', collectionColumns(), 'took', pick);
    this.element = h('section', { class: 'panel allocations' }, this.bar, this.processes.element,
        this.title, this.collections.element);
  }

  savers() {
    return [['processes', this.processes], ['collections', this.collections]].map(
        ([name, table]) => ({ what: `the ${name}`, name, makers: { CSV: () => table.toCsv() } }));
  }

  async render(isStale) {
    const { app } = this;
    const { profile, state } = app;
    const [processes, collections] = await app.once('allocations', [profile, state.range,
      state.pids, state.trace], async () => {
      const selection = await select(profile, state.range, app.only);
      return [await allocatedBy(selection), await collectionsOf(selection)];
    });
    if (isStale()) return;
    app.toolbar.update(); // there is something to save
    this.total = processes.reduce((sum, { bytes }) => sum + bytes, 0);
    render(html`<span class="muted">a click shows only this process, another click all</span>`,
        this.bar);
    const isPicked = ({ pid }) => state.pids.includes(pid);
    this.processes.show(processes, isPicked, app.matches);
    this.title.textContent = collections.length === 0
      ? 'No long collection of garbage in the selection'
      : counted(collections.length, 'long collection').concat(' of garbage');
    this.collections.element.hidden = collections.length === 0;
    this.collections.show(collections, isPicked);
  }
}

function processColumns(total) {
  const part = (id, title, help) => ({ id, title, help, isNumber: true, value: (row) => row[id],
    text: (row) => percent(row[id] / (row.bytes || 1)), order: (row) => row[id] / row.bytes });
  return [
    { id: 'name', title: 'name or call', value: ({ name }) => name, isClipped: true },
    { id: 'pid', title: 'pid', value: ({ pid }) => pid, isWord: true },
    { id: 'allocated', title: 'allocated', isNumber: true, value: ({ bytes }) => bytes,
      text: ({ bytes }) => `${short(bytes, 'bytes')} ${percent(bytes / (total() || 1))}`,
      share: ({ bytes }) => bytes / (total() || 1) },
    part('kept', 'kept', 'of it, the share that the next collection kept'),
    part('garbage', 'garbage', 'of it, the share that was garbage at the next collection'),
    part('notKnown', 'not known', 'of it, the share of which that is not known'),
    { id: 'samples', title: 'samples', isNumber: true, value: ({ samples }) => samples,
      text: ({ samples }) => exact(samples) },
  ];
}

function collectionColumns() {
  return [
    { id: 'took', title: 'took', isNumber: true, value: ({ us }) => us,
      text: ({ us }) => `${(us / MS).toFixed(1)} ms` },
    { id: 'kind', title: 'kind', value: ({ kind }) => kind, isWord: true },
    { id: 'cause', title: 'cause', value: ({ cause }) => cause, isWord: true,
      help: 'what grew: the heap, fragments (large messages), binaries outside of it' },
    { id: 'name', title: 'process', value: ({ name }) => name, isClipped: true },
    { id: 'pid', title: 'pid', value: ({ pid }) => pid, isWord: true },
    { id: 'top', title: 'in', value: ({ top }) => top, isClipped: true,
      help: 'the top of its stack' },
    { id: 'at', title: 'at', isNumber: true, value: ({ atUs }) => atUs,
      text: ({ atUs }) => seconds(Math.round(atUs / MS) * MS) },
  ];
}
