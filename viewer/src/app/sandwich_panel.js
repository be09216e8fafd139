// Functions by their weight, and the callers and callees of the selected one.

import { html } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { FlameView } from '../draw/flame_view.js';
import { TableView } from '../draw/table_view.js';
import { functionTable, sandwich } from '../model/functions.js';
import { groupSamples } from '../model/groups.js';
import { counted, full, percent, short } from '../model/numbers.js';
import { chainsText, chainsToggle } from './chains_control.js';
import { levelsOf } from './state.js';

const SIDES = ['callers', 'callees'];

export class SandwichPanel {
  constructor(app) {
    this.app = app;
    this.table = new TableView('functions', this.columns(), 'self', (row) =>
        app.set({ function: app.names.text[row.name] }));
    this.title = h('h2', {});
    this.views = Object.fromEntries(SIDES.map((side) => [side, this.makeView(side)]));
    this.zoom = { callers: 0, callees: 0 };
    this.slices = h('div', {}, SIDES.map((side) => this.slice(side)));
    this.element = h('section', { class: 'panel sandwich' },
      h('div', { class: 'functions' }, this.table.element),
      h('div', { class: 'slices' }, this.title, this.slices));
  }

  slice(side) {
    return h('div', {}, h('h3', {}, side), this.views[side].element);
  }

  savers() {
    return [
      { what: 'the functions', name: 'functions', makers: { CSV: () => this.table.toCsv() } },
      ...SIDES.map((side) => ({ what: `the ${side}`, name: side, makers: {
        SVG: () => this.views[side].toSvg(),
        PNG: () => this.views[side].canvas,
      } })),
    ];
  }

  options() {
    return html`${chainsToggle(this.app)} ${this.app.toolbar.statuses()}`;
  }

  makeView(side) {
    return new FlameView(side, {
      onZoom: (node) => {
        this.zoom[side] = node;
        this.draw();
      },
      describe: (node) => this.describe(side, node),
    });
  }

  columns() {
    const { app } = this;
    const name = (row) => app.names.text[row.name];
    const number = (id, title) => ({
      id, title, isNumber: true, value: (row) => row[id],
      text: (row) => `${short(row[id], app.measure.unit)} ${percent(row[id] / (this.total || 1))}`,
      share: (row) => row[id] / (this.total || 1),
    });
    return [{ id: 'function', title: 'function', value: name }, number('self', 'itself'),
        number('total', 'total')];
  }

  async render(isStale) {
    const { app } = this;
    const { state, profile, measure } = app;
    const options = { hasLines: state.lines, hidden: new Set(state.hide) };
    const levels = levelsOf(state, measure);
    const groups = await app.once('groups', [profile, measure.id, state.range, state.pids,
        state.trace, state.show, state.chains, levels], async () =>
      groupSamples(await app.select(profile, state.range), measure, levels,
          { modules: app.names.modules }));
    if (isStale()) return;
    this.total = groups.total;
    const rows = functionTable(app.names, groups.profile, groups, options);
    const wanted = state.function === '' ? this.heaviest(rows) : app.names.find(state.function);
    this.table.show(rows, ({ name }) => name === wanted, app.matches);
    this.showSandwich(rows, groups, options, wanted);
  }

  heaviest(rows) {
    return rows.reduce((most, row) => (most === null || row.self > most.self ? row : most),
        null)?.name;
  }

  showSandwich(rows, groups, options, wanted) {
    const { app } = this;
    const row = rows.find((one) => one.name === wanted);
    if (row === undefined) {
      this.title.textContent = app.state.function === ''
          ? `The selection has no function. ${app.state.chains ? chainsText(app.profile, true) : ''}`
          : `${app.state.function} is not in the selection.`;
      this.trees = null;
      this.slices.hidden = true;
      return;
    }
    const { unit } = app.measure;
    this.title.textContent = `${app.names.text[wanted]}: ${full(row.total, unit)}, ` +
        `${percent(row.total / this.total)}; itself ${full(row.self, unit)}`;
    this.trees = sandwich(app.names, groups.profile, groups, options, wanted);
    this.zoom = { callers: 0, callees: 0 };
    this.slices.hidden = false;
    this.draw();
  }

  draw() {
    for (const side of SIDES) {
      const tree = this.trees[side];
      this.views[side].show({
        tree,
        widths: tree.total[0],
        zoom: this.zoom[side],
        sort: 'width',
        isIcicle: side === 'callees',
        matches: null,
        colourOf: null,
      });
    }
  }

  describe(side, node) {
    const tree = this.trees[side];
    const value = tree.total[0][node];
    return [
      tree.names.text[tree.name[node]],
      `${percent(value / (tree.total[0][0] || 1))} of the function, ${percent(value / (this.total || 1))} of all`,
      `${full(value, this.app.measure.unit)}; ${counted(tree.totalSamples[0][node], 'sample')}`,
    ];
  }
}
