// The processes of the selection; a click shows only that one everywhere. They are counted in all
// statuses, whichever the pictures show.

import { html, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { TableView } from '../draw/table_view.js';
import { ACTIVITIES, activitiesOf, worded } from '../model/activity.js';
import { exact, percent, short } from '../model/numbers.js';
import { processTable } from '../model/processes.js';
import { select } from '../model/selection.js';

export class ProcessPanel {
  constructor(app) {
    this.app = app;
    this.bar = h('div', { class: 'bar' });
    this.box = h('div');
    this.element = h('section', { class: 'panel processes' }, this.bar, this.box);
  }

  savers() {
    return [{ what: 'the processes', name: 'processes', makers: {
      CSV: () => this.table.toCsv(),
    } }];
  }

  async render(isStale) {
    const { app } = this;
    const { profile, state } = app;
    const rows = await app.once('processes', [profile, state.range, state.pids,
      state.trace], async () =>
      processTable(await select(profile, state.range, { ...app.only, show: 'all' })));
    if (isStale()) return;
    this.tableOf(profile).show(rows, ({ pid }) => state.pids.includes(pid), app.matches);
  }

  tableOf(profile) {
    const { show } = this.app.state;
    const asked = show === 'waiting' ? 'waiting' : ANSWERS[this.app.measure.id] ?? 'reductions';
    const key = [asked, ...profile.statuses].join();
    if (this.key !== key) {
      this.key = key;
      this.table = new TableView('processes', columnsOf(profile, asked), asked, (row, event) =>
          this.pick(row, event));
      this.box.replaceChildren(this.table.element);
      render(html`<span class="muted">a click shows only this process, with Shift or Ctrl it is added</span>`, this.bar);
    }
    return this.table;
  }

  pick(row, event) {
    const { app } = this;
    const isAdded = event.shiftKey || event.ctrlKey || event.metaKey;
    app.set({ pids: isAdded ? [...new Set([...app.state.pids, row.pid])] : [row.pid], zoom: [] });
  }
}

// The column that answers a question, by its measure.
const ANSWERS = { message_queue_len: 'queue_peak', memory: 'memory_peak',
  binaries: 'binaries_peak', collecting: 'garbage_collecting' };

// The one that is asked for is the first number; shares of statuses are in the bar, too.
function columnsOf(profile, asked) {
  const number = (id, title, value, text, more = {}) =>
      ({ id, title, value, text: text ?? ((row) => exact(value(row))), isNumber: true, ...more });
  const shareOf = (status) => (row) => row.statuses[status] / row.samples;
  const columns = [
    { id: 'name', title: 'name or call', value: (row) => row.name, isClipped: true },
    { id: 'pid', title: 'pid', value: (row) => row.pid, isWord: true },
    { id: 'activity', title: 'activity', cell: activityBar(profile.statuses), value: () => '',
        order: busyShare(profile.statuses), help: 'the share of its observations, by status' },
    ...profile.statuses.map((status, i) =>
        number(status || 'no status', worded(status) || 'no status', (row) => row.statuses[i],
            (row) => percent(shareOf(i)(row)),
            { order: shareOf(i), isHidden: status !== asked })),
    { id: 'waits_in', title: 'waits in', value: (row) => row.waitsIn, isClipped: true,
        help: 'the function in which it waited most' },
    number('samples', 'samples', (row) => row.samples),
    number('reductions', 'reductions', (row) => row.reductions),
    number('queue_peak', 'longest queue', (row) => row.queuePeak),
    number('memory_peak', 'most memory', (row) => row.memoryPeak, (row) =>
        short(row.memoryPeak, 'bytes')),
    number('binaries_peak', 'most binaries', (row) => row.binariesPeak, (row) =>
        short(row.binariesPeak, 'bytes')),
    number('growth', 'growth', (row) => row.growth, (row) => short(row.growth, 'bytes')),
  ];
  const at = columns.findIndex(({ id }) => id === asked);
  if (at > 2) columns.splice(2, 0, ...columns.splice(at, 1));
  return columns;
}

function sharesOf(statuses, row) {
  const activities = activitiesOf(statuses);
  const shares = ACTIVITIES.map(() => 0);
  row.statuses.forEach((n, status) => (shares[activities[status]] += n / row.samples));
  return shares;
}

function busyShare(statuses) {
  return (row) => 1 - sharesOf(statuses, row)[ACTIVITIES.indexOf('waiting')];
}

function activityBar(statuses) {
  return (row) => {
    const shares = sharesOf(statuses, row);
    const text = ACTIVITIES.map((activity, i) => `${activity} ${percent(shares[i])}`)
        .filter((_, i) => shares[i] > 0).join(', ');
    return html`<span class="activity" role="img" aria-label=${text} title=${text}
      >${ACTIVITIES.map((activity, i) => html`<i class=${`act-${activity}`}
        .style=${`width:${(100 * shares[i]).toFixed(1)}%`}></i>`)}</span>`;
  };
}
