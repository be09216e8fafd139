// The processes of the selection; a click shows only that one everywhere.

import { h } from '../draw/dom.js';
import { saveButtons } from '../draw/save.js';
import { TableView } from '../draw/table_view.js';
import { exact, short } from '../model/numbers.js';
import { processTable } from '../model/processes.js';
import { select } from '../model/selection.js';

export class ProcessPanel {
  constructor(app) {
    this.app = app;
    this.box = h('div');
    this.element = h('section', { class: 'panel' },
      h('div', { class: 'bar' },
        h('span', { class: 'muted' },
            'a click shows only this process, with Shift or Ctrl it is added'),
        h('span', { class: 'space' }),
        saveButtons('the processes', () => 'processes', { CSV: () => this.table.toCsv() })),
      this.box);
  }

  async render(isStale) {
    const { app } = this;
    const { profile, state } = app;
    const rows = await app.once('processes', [profile, state.range, state.pids, state.busy],
        async () =>
      processTable(await select(profile, state.range, app.only)));
    if (isStale()) return;
    this.tableOf(profile).show(rows);
  }

  tableOf(profile) {
    if (this.table === undefined || this.statuses !== profile.statuses) {
      const sort = this.table?.sort;
      this.statuses = profile.statuses;
      this.table = new TableView('processes', columnsOf(profile), 'reductions', (row, event) =>
          this.pick(row, event));
      if (sort) this.table.sort = sort;
      this.box.replaceChildren(this.table.element);
    }
    return this.table;
  }

  pick(row, event) {
    const { app } = this;
    const isAdded = event.shiftKey || event.ctrlKey || event.metaKey;
    app.set({ pids: isAdded ? [...new Set([...app.state.pids, row.pid])] : [row.pid], zoom: [] });
  }
}

function columnsOf(profile) {
  const number = (id, title, value, text) =>
      ({ id, title, value, text: text ?? ((row) => exact(value(row))), isNumber: true });
  return [
    { id: 'pid', title: 'pid', value: (row) => row.pid, isWord: true },
    { id: 'name', title: 'name or call', value: (row) => row.name },
    number('samples', 'samples', (row) => row.samples),
    ...profile.statuses.map((status, i) =>
        number(status || 'no status', status || 'no status', (row) => row.statuses[i])),
    number('reductions', 'reductions', (row) => row.reductions),
    number('queue_peak', 'longest queue', (row) => row.queuePeak),
    number('memory_peak', 'most memory', (row) => row.memoryPeak, (row) =>
        short(row.memoryPeak, 'bytes')),
    number('growth', 'growth', (row) => row.growth, (row) => short(row.growth, 'bytes')),
  ];
}
