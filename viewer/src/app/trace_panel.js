// OpenTelemetry's traces of the selection; a click shows only that one's samples everywhere.

import { html, live, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { TableView } from '../draw/table_view.js';
import { exact, seconds } from '../model/numbers.js';
import { select } from '../model/selection.js';
import { traceId, traceTable } from '../model/traces.js';

export class TracePanel {
  constructor(app) {
    this.app = app;
    this.bar = h('div', { class: 'bar' });
    this.table = new TableView('traces', columns(), 'samples', ({ trace }) =>
        app.set({ trace: app.state.trace === trace ? '' : trace, show: 'all', zoom: [] }));
    this.element = h('section', { class: 'panel traces' }, this.bar, this.table.element);
  }

  savers() {
    return [{ what: 'the traces', name: 'traces', makers: { CSV: () => this.table.toCsv() } }];
  }

  async render(isStale) {
    const { app } = this;
    const { profile, state } = app;
    const rows = await app.once('traces', [profile, state.range, state.pids], async () =>
      traceTable(await select(profile, state.range, { ...app.only, trace: '', show: 'all' })));
    if (isStale()) return;
    render(html`
      <label>only <input type="search" class="trace" size="36" placeholder="trace or span id"
        .value=${live(state.trace)} @change=${({ target }) =>
          app.set({ trace: traceId(target.value), show: 'all', zoom: [] })}></label>
      <span class="muted">${rows.length === 0
        ? 'no sample has a trace: a session with the option otel writes them'
        : 'samples of these traces; a click shows only this trace'}</span>`, this.bar);
    this.table.show(rows, ({ trace }) => trace === state.trace, app.matches);
  }
}

function columns() {
  const number = (id, title, text) => ({ id, title, value: (row) => row[id], isNumber: true,
    text: text ?? ((row) => exact(row[id])) });
  return [
    { id: 'trace', title: 'trace', value: (row) => row.trace, isWord: true },
    number('samples', 'samples'),
    number('spans', 'spans'),
    number('processes', 'processes'),
    number('firstUs', 'first', (row) => seconds(row.firstUs)),
    { id: 'lasted', title: 'seen for', value: (row) => row.lastUs - row.firstUs, isNumber: true,
      text: (row) => seconds(row.lastUs - row.firstUs) },
    { id: 'names', title: 'in', value: (row) => row.names.join(', '), isClipped: true },
  ];
}
