// Functions by their weight, and the callers and callees of the selected one.

import { h } from '../draw/dom.js';
import { FlameView } from '../draw/flame_view.js';
import { saveButtons } from '../draw/save.js';
import { TableView } from '../draw/table_view.js';
import { functionTable, sandwich } from '../model/functions.js';
import { groupSamples } from '../model/groups.js';
import { exact, full, percent, short } from '../model/numbers.js';
import { select } from '../model/selection.js';
import { levelsOf } from './state.js';

const SIDES = ['callers', 'callees'];

export class SandwichPanel {
  constructor(app) {
    this.app = app;
    this.table = new TableView('functions', this.columns(), 'total', (row) =>
        app.set({ function: app.names.text[row.name] }));
    this.title = h('h2', {});
    this.views = Object.fromEntries(SIDES.map((side) => [side, this.makeView(side)]));
    this.zoom = { callers: 0, callees: 0 };
    this.slices = h('div', {}, SIDES.map((side) => this.slice(side)));
    this.element = h('section', { class: 'panel sandwich' },
      h('div', { class: 'functions' },
        h('div', { class: 'bar' }, h('span', { class: 'muted' },
            'a click shows callers and callees'), h('span', { class: 'space' }),
          saveButtons('the functions', () => 'functions', { CSV: () => this.table.toCsv() })),
        this.table.element),
      h('div', { class: 'slices' }, this.title, this.slices));
  }

  slice(side) {
    const view = this.views[side];
    return h('div', {},
      h('div', { class: 'bar' }, h('h3', {}, side), h('span', { class: 'space' }),
        saveButtons(`the ${side}`, () => side,
            { SVG: () => view.toSvg(), PNG: () => view.canvas })),
      view.element);
  }

  makeView(side) {
    return new FlameView(side, {
      onZoom: (node) => {
        this.zoom[side] = node;
        this.draw();
      },
      onPick: () => {},
      describe: (node) => this.describe(side, node),
    });
  }

  columns() {
    const { app } = this;
    const name = (row) => app.names.text[row.name];
    const number = (id, title) => ({
      id, title, isNumber: true, value: (row) => row[id],
      text: (row) => `${short(row[id], app.measure.unit)} ${percent(row[id] / (this.total || 1))}`,
    });
    return [{ id: 'function', title: 'function', value: name }, number('total', 'total'),
        number('self', 'itself')];
  }

  async render(isStale) {
    const { app } = this;
    const { state, profile, measure } = app;
    const options = { hasLines: state.lines, hidden: new Set(state.hide) };
    const levels = levelsOf(state, measure);
    const groups = await app.once('groups', [profile, measure.id, state.range, state.pids,
        state.busy, levels], async () =>
      groupSamples(await select(profile, state.range, app.only), measure, levels,
          { modules: app.names.modules }));
    if (isStale()) return;
    this.total = groups.total;
    const rows = functionTable(app.names, profile, groups, options);
    this.table.show(rows);
    this.showSandwich(rows, groups, options);
  }

  showSandwich(rows, groups, options) {
    const { app } = this;
    const wanted = app.names.find(app.state.function);
    const row = rows.find((one) => one.name === wanted);
    if (row === undefined) {
      this.title.textContent = app.state.function === '' ? 'choose a function'
          : `${app.state.function} is not in the selection`;
      this.trees = null;
      this.slices.hidden = true;
      return;
    }
    const { unit } = app.measure;
    this.title.textContent =
        `${app.state.function}: ${full(row.total, unit)}, ${percent(row.total / this.total)}; itself ${full(row.self, unit)}`;
    this.trees = sandwich(app.names, app.profile, groups, options, wanted);
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
      `${full(value, this.app.measure.unit)}; ${exact(tree.totalSamples[0][node])} samples`,
    ];
  }
}
