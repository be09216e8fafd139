// Stacks over time: those of one process or scheduler, below the time axis and along it.

import { html, render, select } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { FlameView } from '../draw/flame_view.js';
import { activitiesOf, ACTIVITIES } from '../model/activity.js';
import { seconds, short } from '../model/numbers.js';
import { search } from '../model/tree.js';
import { stacksOverTime } from '../model/stacks_over_time.js';

const OFFERED = 30; // processes

export class StacksPanel {
  constructor(app) {
    this.app = app;
    this.view = new FlameView('stacks over time', {
      onZoom: (node) => app.set({ range: node === 0 ? null : this.timeOf(node) }),
      onMagnify: (factor, x) => app.glide({ time: this.axis.zoomed(this.axis.left + x, factor,
          app.profile.durationUs) }),
      describe: (node, x) => this.describe(node, x),
    });
    this.bar = h('div', { class: 'bar path' });
    this.element = h('section', { class: 'panel' }, this.bar, this.view.element);
  }

  savers() {
    return [{ what: 'the stacks over time', name: 'stacks', makers: {
      SVG: () => this.view.toSvg(), PNG: () => this.view.canvas } }];
  }

  /** {process} or {scheduler}; at first the process that is selected, or the busiest one. */
  get chosen() {
    const { state, profile } = this.app;
    if (state.stacks !== '') return { scheduler: Number(state.stacks) };
    const process = this.byCpu.find((one) => state.pids.includes(profile.pid(one)));
    return { process: process ?? this.byCpu[0] };
  }

  get byCpu() {
    const { profile, timeline: { basics: { totals } } } = this.app;
    const busy = (p) => totals.running[p] + totals.ready[p] + totals.collecting[p];
    return Array.from({ length: profile.processCount }, (_, p) => p)
        .filter((p) => totals.observations[p] > 0).sort((a, b) => busy(b) - busy(a));
  }

  async render(isStale) {
    const { app } = this;
    const { profile, state, timeline: { axis } } = app;
    const of = this.chosen;
    const title = of.scheduler ? `scheduler ${of.scheduler}`
        : `${profile.label(of.process)} ${profile.pid(of.process)}`;
    const options = { hasLines: state.lines, hidden: new Set(state.hide) };
    const tree = await app.once('stacks', [profile, axis.grid, of, state.lines, state.hide], () =>
        stacksOverTime(profile, axis.grid, of, { names: app.names, title, options }));
    if (isStale()) return;
    Object.assign(this, { tree, axis });
    render(this.barOf(of), this.bar);
    this.view.element.style.margin = `0 0 0 ${axis.left}px`;
    this.view.element.style.width = `${axis.pixels}px`;
    const matches = app.matches.processes === null ? null : search(tree, 0, app.matches).matches;
    this.view.show({ tree, widths: tree.total[0], zoom: 0, sort: 'name', isIcicle: state.icicle,
      matches, colourOf: null, isBlank: tree.isBlank });
  }

  barOf(of) {
    const { app } = this;
    const { profile, timeline: { basics } } = app;
    const processes = [...new Set([...(of.scheduler ? [] : [of.process]),
      ...this.byCpu.slice(0, OFFERED)])];
    const entries = [
      ...(basics.schedulers ?? []).map((_, n) => [`s${n + 1}`, `scheduler ${n + 1}`]),
      ...processes.map((process) => [`p${process}`,
        `${profile.label(process)} ${profile.pid(process)}`]),
    ];
    const chosen = of.scheduler ? `s${of.scheduler}` : `p${of.process}`;
    return html`<label>of ${select('stacks of', entries, chosen, (value) =>
        app.set(value.startsWith('s') ? { stacks: value.slice(1) }
          : { stacks: '', pids: [profile.pid(Number(value.slice(1)))] }))}</label>
      <span class="muted">a click selects the time of a frame</span>`;
  }

  // [fromUs, toUs) of a node.
  timeOf(node) {
    const { axis, tree } = this;
    const at = (cell) => Math.round(axis.fromUs + cell * axis.grid.cellUs);
    const [first, end] = tree.spans[node];
    return [at(first), at(end)];
  }

  describe(node, x) {
    const { app: { profile }, axis, tree } = this;
    const [from, to] = this.timeOf(node);
    const lines = [tree.names.shown[tree.name[node]],
      `${seconds(from)} to ${seconds(to)}: ${short(to - from, 'us')}`];
    const row = x === undefined || tree.isBlank(node) ? -1 : tree.rowOf(Math.floor(x));
    if (row < 0) return lines;
    const { process, status } = profile.columns;
    return [...lines, profile.label(process[row]),
      ACTIVITIES[activitiesOf(profile.statuses)[status[row]]]];
  }
}
