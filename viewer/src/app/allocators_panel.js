// The VM's allocators at the end of the selection: what they have from the system, and how much of
// it is used. A button of the memory's lane opens it; the one that is clicked has a lane itself.

import { button, html, render, swatch } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { TableView } from '../draw/table_view.js';
import { allocatorsOf, allocatorTable } from '../model/allocators.js';
import { isKnown, percent, seconds, short } from '../model/numbers.js';

const TENTH_US = 1e5;

export class AllocatorsPanel {
  constructor(app) {
    this.app = app;
    this.found = null;
    this.bar = h('div', { class: 'bar' });
    this.table = new TableView('allocators', columns(), 'allocated', ({ id }) =>
        app.set({ allocators: id }));
    this.element = h('div', { class: 'allocators', hidden: true }, this.bar, this.table.element);
  }

  savers() {
    if (this.app.state.allocators === '') return [];
    return [{ what: 'the allocators', name: 'allocators', makers: {
      CSV: () => this.table.toCsv(),
    } }];
  }

  async prepare(profile) {
    const { app } = this;
    this.found = app.state.allocators === '' || profile.isOfAllocations ? null
        : await app.once('allocators', [profile], () => allocatorsOf(profile));
  }

  /** The one that has a lane. */
  get chosen() {
    const { list = [] } = this.found ?? {};
    return list.find(({ id }) => id === this.app.state.allocators) ?? list[0];
  }

  /** @param colours of the used and of the free */
  show([used, free]) {
    const { app, found, table } = this;
    this.element.hidden = found === null;
    if (found === null) return;
    const shown = allocatorTable(found, app.state.range);
    const told = (us) => seconds(Math.round(us / TENTH_US) * TENTH_US);
    render(html`<h3>Allocators</h3>
      <span class="muted">${shown === null ? 'There is no reading in the selection or before it.'
        : `as read at ${told(shown.atUs)}, changes since ${told(shown.sinceUs)}; a click shows one
          over time`}</span>
      <span class="space"></span>${swatch('used', used)}${swatch('free', free)}
      ${button('close', () => app.set({ allocators: '' }), { label: 'close the allocators' })}`,
    this.bar);
    table.show(shown?.rows ?? [], ({ id }) => id === this.chosen.id);
  }
}

function columns() {
  const bytes = (id, title, help) => ({ id, title, help, isNumber: true,
    value: (row) => (isKnown(row[id]) ? row[id] : ''), text: (row) => told(row[id]),
    order: (row) => (isKnown(row[id]) ? row[id] : -Infinity) });
  const change = (id) => ({ ...bytes(id, 'change', 'over the selection'), text: (row) =>
    `${row[id] > 0 ? '+' : ''}${told(row[id])}` });
  return [
    { id: 'title', title: 'allocator', value: ({ title }) => title, isWord: true },
    bytes('allocated', 'allocated', 'carriers: what it has from the system'),
    change('allocatedChange'),
    bytes('used', 'used', 'blocks: what is in use of that'),
    change('usedChange'),
    { ...bytes('fragmentation', 'fragmentation', '1 - used / allocated'), text: (row) =>
      (row.allocated > 0 ? percent(row.fragmentation) : ''), share: (row) =>
      Math.max(0, row.fragmentation || 0) },
    bytes('hole', 'largest free', 'the largest free block: a larger one needs another carrier'),
    bytes('pool', 'in pool', 'carriers that its other instances may take'),
    bytes('single', 'single', 'carriers with one block'),
    bytes('mseg', 'mapped', 'carriers that the VM mapped itself, without the pool'),
    bytes('sys', 'malloc', 'carriers out of malloc, without the pool'),
  ];
}

const told = (n) => (n === undefined ? '' : isKnown(n) ? short(n, 'bytes') : 'not known');
