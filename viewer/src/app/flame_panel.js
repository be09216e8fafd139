// The flame graph of the selection, and its comparison with another.

import { button, html, nothing, render, repeat, select, swatch, toggle } from
  '../draw/controls.js';
import { h } from '../draw/dom.js';
import { FlameView } from '../draw/flame_view.js';
import { openMenu } from '../draw/menu.js';
import { kindSample } from '../draw/palette.js';
import { cssPattern } from '../draw/patterns.js';
import { csv } from '../draw/save.js';
import { worded } from '../model/activity.js';
import { changes, elided, shares } from '../model/compare.js';
import { firstSeen } from '../model/first_seen.js';
import { groupSamples } from '../model/groups.js';
import { KINDS } from '../model/kinds.js';
import { hasLevel, LEVELS } from '../model/levels.js';
import { counted, exact, full, percent, seconds, short } from '../model/numbers.js';
import { addGroups, FlameTree, search } from '../model/tree.js';
import { measureOf } from '../model/measures.js';
import { chainEnd, chainsText, chainsToggle } from './chains_control.js';
import { levelsOf } from './state.js';

export class FlamePanel {
  constructor(app, isComparison) {
    this.app = app;
    this.isComparison = isComparison;
    this.view = new FlameView(isComparison ? 'comparison' : 'flame graph', {
      onZoom: (node) => app.set({ zoom: this.tree.path(node) }),
      describe: (node) => this.describe(node),
      onMenu: (node) => this.menu(node),
    });
    this.bar = h('div', { class: 'bar sides', hidden: !isComparison });
    this.summary = h('span', { class: 'muted summary' });
    this.crumbs = h('nav', { class: 'crumbs', 'aria-label': 'zoomed frames' });
    this.kinds = h('span', { class: 'kinds' });
    this.element = h('section', { class: 'panel' }, this.bar,
        h('div', { class: 'bar path' }, this.summary, this.crumbs, this.kinds), this.view.element);
  }

  async render(isStale) {
    const { app } = this;
    const levels = levelsOf(app.state, app.measure);
    if (this.isComparison) render(this.comparisonBar(), this.bar);
    render(this.isComparison && app.state.compare === 'difference' ? this.scale()
        : KINDS.map((kind) => swatch(worded(kind), kindSample(kind))), this.kinds);
    const tree = await this.makeTree(levels);
    if (isStale()) return;
    this.shownLevels = levels;
    this.show(tree);
  }

  // -------------------------------------------------------------------- tree

  get treeOptions() {
    const { state } = this.app;
    return {
      isInverted: state.inverted,
      recursion: state.merge,
      hasLines: state.lines,
      hidden: new Set(state.hide),
    };
  }

  makeTree(levels) {
    const { app } = this;
    const { state, profile, measure } = app;
    const key = [profile, measure.id, state.range, levels, state.pids, state.trace, state.show,
        state.chains,
        state.inverted, state.merge, state.lines, state.hide];
    if (!this.isComparison) return app.once('flame', key, () => this.makePlain(levels));
    return app.once('compare', [...key, state.otherFile, state.otherRange,
        app.opened.get(state.otherFile)?.version ?? ''], () => this.makeBoth(levels));
  }

  async makePlain(levels) {
    const tree = new FlameTree(this.app.names);
    tree.ticks = [0, 0];
    await this.addSide(tree, 0, this.app.profile, this.app.state.range, levels);
    return tree.finish();
  }

  async makeBoth(levels) {
    const { app } = this;
    const tree = new FlameTree(app.names);
    tree.ticks = [0, 0];
    const other = app.state.otherFile === '' ? app.profile : await app.open(app.state.otherFile);
    await this.addSide(tree, 0, app.profile, app.state.range, levels);
    await this.addSide(tree, 1, other, app.state.otherRange, levels);
    return tree.finish();
  }

  async addSide(tree, side, profile, range, levels) {
    const { app } = this;
    const selection = await app.select(profile, range);
    const measure = measureOf(profile, app.measure.id);
    if (measure.kind === 'delta' && side === 0) tree.first = await firstSeen(selection, measure);
    if (measure.kind === 'value') tree.ticks[side] = await ticksIn(profile, range);
    const groups = await groupSamples(selection, measure, levels, { modules: app.names.modules });
    addGroups(tree, side, groups.profile, groups, this.treeOptions);
  }

  // -------------------------------------------------------------------- show

  show(tree) {
    const { app } = this;
    const { state } = app;
    this.tree = tree;
    const isElided = this.isComparison && state.compare === 'elided';
    this.widths = isElided ? elided(tree) : tree.total[0];
    this.changes = this.isComparison ? changes(tree, !state.absolute) : null;
    const matches = this.search(tree);
    this.zoom = tree.find(state.zoom);
    this.updateSummary();
    render(this.crumbsOf(this.zoom), this.crumbs);
    this.view.show({
      tree,
      widths: this.widths,
      zoom: this.zoom,
      sort: state.sort,
      isIcicle: state.icicle,
      matches,
      colourOf: this.isComparison && !isElided ? this.colours() : null,
      isLess: (node) => this.changes[node] < 0,
    });
  }

  // The way from the root to what is zoomed; its last frame has a menu.
  crumbsOf(zoom) {
    const { app, tree } = this;
    if (zoom === 0) return nothing;
    const path = [];
    for (let node = zoom; node >= 0; node = tree.parent[node]) path.unshift(node);
    return html`${path.map((node) => button(tree.names.shown[tree.name[node]], () =>
        app.set({ zoom: tree.path(node) }), { title: this.describe(node).join('\n') }))}
      <span class="muted">${this.shareText(zoom)}</span>
      ${button('…', ({ currentTarget }) => {
        const { left, bottom } = currentTarget.getBoundingClientRect();
        openMenu(this.tree.names.shown[this.tree.name[this.zoom]], this.menu(this.zoom), left,
            bottom, currentTarget);
      }, { label: 'what can be done with the zoomed frame' })}`;
  }

  shareText(node) {
    const [all] = this.tree.total;
    return `${percent(all[node] / (all[0] || 1))} of all`;
  }

  search(tree) {
    const { matches } = this.app;
    return matches.processes === null ? null : search(tree, 0, matches).matches;
  }

  colours() {
    const { palette } = this.app;
    const parts = shares(this.tree, this.changes);
    return (node) => palette.diverging(parts[node]);
  }

  updateSummary() {
    const { app, tree } = this;
    const total = tree.total[0][0];
    const { unit, title } = app.measure;
    const among = (side) => (unit === 'samples' ? ''
        : ` in ${counted(tree.totalSamples[side][0], 'sample')}`);
    const whole = (side) => (unit === 'samples' ? counted(tree.total[side][0], 'sample')
        : this.weight(tree.total[side][0], side)) + among(side);
    const parts = [unit === 'samples' ? whole(0) : `${title}: ${whole(0)}`];
    if (this.isComparison) {
      parts.push(`compared with ${whole(1)}`);
      if (app.state.compare === 'elided') {
        parts.push(`${this.weight(this.widths[0], 0)} of it has no counterpart`);
      }
    }
    if (tree.first) parts.push(this.firstText(tree.first));
    const text = total > 0 ? parts.join('; ') : `${parts.join('; ')}. There is nothing to show.`;
    this.summary.textContent = app.state.chains
        ? `${text}${total > 0 ? '.' : ''} ${chainsText(app.profile, total === 0)}` : text;
    this.element.dataset.total = String(total);
  }

  // Of one process or many: 15,613 when first seen
  firstText({ sum, most: { process, value } }) {
    const { profile, measure: { unit } } = this.app;
    return `besides ${full(sum, unit)} when first seen`
      + (value === sum ? ` (${profile.label(process)})`
          : `, ${full(value, unit)} of it ${profile.label(process)}`);
  }

  /** Of a value, a sum over samples says nothing: it is told as what there was at a time. */
  weight(sum, side) {
    const { unit, kind } = this.app.measure;
    const ticks = this.tree.ticks[side];
    if (kind !== 'value' || ticks === 0) return full(sum, unit);
    const mean = sum / ticks;
    return `${unit === 'count' ? short(mean, unit) : full(Math.round(mean), unit)} at a time`;
  }

  describe(node) {
    const { app, tree, widths } = this;
    const { unit, kind } = app.measure;
    const value = tree.total[0][node];
    const part = (of) => percent(value / (tree.total[0][of] || 1));
    const [parent, { zoom }] = [tree.parent[node], this];
    const lines = [
      tree.names.shown[tree.name[node]],
      ...(app.state.chains ? chainEnd(tree.names.text[tree.name[node]]) : []),
      `${this.shareText(node)}: ${this.weight(value, 0)}`,
      ...(parent > 0 ? [`${part(parent)} of its parent`] : []),
      ...(zoom > 0 && zoom !== node && zoom !== parent ? [`${part(zoom)} of what is zoomed`] : []),
      `itself ${this.weight(tree.self[0][node], 0)}`,
      ...(unit === 'samples' ? [] : [counted(tree.totalSamples[0][node], 'sample')]),
    ];
    if (kind === 'value' && tree.totalSamples[0][node] > 0) {
      lines.push(`on average ${full(value / tree.totalSamples[0][node], unit)} a sample`);
    }
    if (this.isComparison) lines.push(this.describeChange(node));
    if (widths !== tree.total[0]) lines.push(`without counterpart ${this.weight(widths[node], 0)}`);
    const { text, shown, place } = tree.names;
    const name = tree.name[node];
    if (shown[name] !== text[name]) lines.push(text[name]);
    return place[name] ? [...lines, place[name]] : lines;
  }

  describeChange(node) {
    const before = this.weight(this.tree.total[1][node], 1);
    const change = this.changes[node];
    const { unit, kind } = this.app.measure;
    const { absolute } = this.app.state;
    const isCounted = kind !== 'value' && (unit === 'samples' || unit === 'count');
    const size = isCounted ? exact(Math.abs(change)) : absolute ? full(Math.abs(change), unit)
        : this.weight(Math.abs(change), 0);
    const how = change === 0 ? 'no change' : `${size} ${change > 0 ? 'more'
        : isCounted ? 'fewer' : 'less'}`;
    return `other side ${before}; ${how}${absolute ? '' : ', both taken as equally large'}`;
  }

  // ------------------------------------------------------------------- frame

  menu(node) {
    const { app, tree, view } = this;
    const { text, module: modules, place: places } = tree.names;
    const name = tree.name[node];
    const [module, place] = [modules[name], places[name]];
    const pids = this.pidsOf(node);
    const copy = (what) => () => navigator.clipboard?.writeText(what);
    return [
      (app.state.zoom.length > 0 || view.isZoomed) && { title: 'zoom out', run: () => {
        view.see([0, 1]);
        app.set({ zoom: [] });
      } },
      !tree.names.isLevel(name) && { title: 'sandwich', run: () =>
        app.set({ view: 'sandwich', function: text[name] }) },
      module !== '' && app.measuredNode !== null && { title: 'measure its latency', run: () =>
        app.set({ view: 'latency', calls: [text[name]] }) },
      module !== '' && { title: `hide ${module}`, run: () =>
        app.set({ hide: [...new Set([...app.state.hide, module])], zoom: [] }) },
      pids.length > 0 && { title: 'only this process', run: () => app.set({ pids, zoom: [] }) },
      { title: 'search this', run: () => app.type({ search: `/^${escaped(text[name])}$/` }) },
      { title: 'copy name', run: copy(text[name]) },
      { title: 'copy stack', run: copy(tree.path(node).join('\n')) },
      place && { title: `copy ${place}`, run: copy(place) },
    ].filter(Boolean);
  }

  // Of the process that groups the node; [] where none does, or too many have its name.
  pidsOf(node) {
    const { profile } = this.app;
    const path = this.tree.path(node);
    const at = this.shownLevels.findIndex((level) => level === 'process' || level === 'pid');
    if (at < 0 || at >= path.length) return [];
    const isIt = (process) => path[at] === (this.shownLevels[at] === 'pid' ? profile.pid(process)
        : profile.label(process));
    const processes = Array.from({ length: profile.processCount }, (_, p) => p).filter(isIt);
    return processes.length <= PIDS_MOST ? processes.map((process) => profile.pid(process)) : [];
  }

  // ----------------------------------------------------------------- options

  options() {
    const { app } = this;
    const { state } = app;
    const reset = (changes) => app.set({ ...changes, zoom: [] });
    return html`
      <div class="bar">
        ${toggle('icicle', state.icicle, (icicle) => app.set({ icicle }),
            'the root at the top (i)')}
        ${toggle('callers', state.inverted, (inverted) => reset({ inverted }),
            'inverted: the leaf at the root (v)')}
        ${chainsToggle(app)}
        ${toggle('merge recursion', state.merge !== '0', (isMerged) =>
            reset({ merge: isMerged ? 'all' : '0' }), 'a function below itself is one frame')}
        ${toggle('lines', state.lines, (lines) => reset({ lines }),
            'a frame for each line of a function')}
      </div>
      <label>order ${select('sort', [['name', 'by name'], ['width', 'by width']], state.sort,
          (sort) => app.set({ sort }))}</label>
      ${app.toolbar.statuses()}
      ${this.levelsBar(levelsOf(state, app.measure ?? measureOf(app.profile, state.measure)))}
      ${this.isComparison ? html`<label>show ${select('comparison', [['difference', 'difference'],
          ['elided', 'only what the other has not']], state.compare, (compare) =>
          reset({ compare }))}</label>
        ${toggle('absolute', state.absolute, (absolute) => app.set({ absolute }),
            'compare sizes, not shares')}` : nothing}`;
  }

  savers() {
    return [{
      what: 'the flame graph',
      name: `${this.isComparison ? 'compare' : 'flame'}-${this.app.measure?.id}`,
      makers: {
        SVG: () => this.view.toSvg(),
        PNG: () => this.view.canvas,
        CSV: () => this.toCsv(),
      },
    }];
  }

  toCsv() {
    const { tree } = this;
    const head = ['stack', 'total', 'self', 'samples'];
    const rows = [this.isComparison ? [...head, 'other_total', 'other_self', 'change', 'width']
        : head];
    for (let node = 0; node < tree.size; node++) {
      const row = [tree.path(node).join(';'), tree.total[0][node], tree.self[0][node],
          tree.totalSamples[0][node]];
      rows.push(this.isComparison ? [...row, tree.total[1][node], tree.self[1][node],
          this.changes[node], this.widths[node]] : row);
    }
    return csv(rows);
  }

  comparisonBar() {
    const { app } = this;
    const { state } = app;
    const { kind } = app.profiles.find(({ name }) => name === app.name) ?? {};
    const files = [['', 'this profile'], ...app.profiles.filter((one) => one.kind === kind
        && one.name !== app.name).map(({ name }) => [name, name])];
    const text = state.otherRange === null ? 'all of it'
        : `${seconds(state.otherRange[0])} to ${seconds(state.otherRange[1])}`;
    const isSame = state.otherFile === '' && `${state.range}` === `${state.otherRange}`;
    return html`
      <label>with ${select('compare with', files, state.otherFile, (otherFile) =>
          app.set({ otherFile, otherRange: null, zoom: [] }))}</label>
      <output class="other-range">${text}</output>
      ${button('swap', () => app.set(swappedSides(state, app.name)))}
      <span class="hint">${isSame ? 'Both sides are the same. ' : ''}Drag selects a range, Alt and
        drag the other one.</span>`;
  }

  scale() {
    const { palette } = this.app;
    return html`change, of all: ${STEPS.map((part) => swatch(part === 0 ? '0'
        : `${part < 0 ? '−' : '+'}${Math.abs(100 * part)} %`,
        `${part < 0 ? `${cssPattern('hatch')}, ` : ''}${palette.diverging(Math.cbrt(part))}`))}`;
  }

  levelsBar(levels) {
    const { app } = this;
    const others = Object.keys(LEVELS).filter((level) => !levels.includes(level)
        && (level !== 'sign' || app.measure.kind === 'delta')
        && hasLevel(app.profile, level));
    const put = (next) => app.set({ levels: next, zoom: [] });
    const isFixed = (level) => level === 'sign';
    return html`<div class="bar levels">
      <span class="muted">group by, root first:</span>
      ${repeat(levels, (level) => level, (level, i) => html`
        <span class="chip" data-level=${level}>
          ${i > 0 ? button('◂', () => put(swapped(levels, i - 1)),
              { label: `${level} outwards` }) : nothing}
          ${LEVELS[level].title}
          ${i < levels.length - 1 ? button('▸', () => put(swapped(levels, i)),
              { label: `${level} inwards` }) : nothing}
          ${isFixed(level) ? nothing : button('×', () =>
              put(levels.filter((one) => one !== level)), { label: `without ${level}` })}
        </span>`)}
      ${repeat(others, (level) => level, (level) =>
          button(`+ ${LEVELS[level].title}`, () => put([...levels, level]), { class: 'add' }))}
    </div>`;
  }
}

const STEPS = [-1, -0.1, -0.01, 0, 0.01, 0.1, 1]; // of the whole, for the legend of changes

const PIDS_MOST = 100; // an address holds them

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

// A merged sample counts with all of its weight in the range that has its time: in a short range
// the sum is not that of its ticks.
const MEAN_LEAST_US = 10e6;

/** How often processes were sampled in the range; 0: a mean over the ticks would not be true. */
async function ticksIn(profile, range) {
  const [from, to] = range ?? [0, profile.durationUs];
  const isOfManyNodes = profile.isOwn.reduce((sum, n) => sum + n, 0) > 1;
  const isShort = range !== null && profile.looks !== null && to - from < MEAN_LEAST_US;
  if (isOfManyNodes || isShort) return 0;
  const { starts } = await profile.ticks();
  const coarse = await profile.coarse();
  let ticks = starts.reduce((n, start) =>
      n + Number(start >= from && start <= to && !coarse?.has(start)), 0);
  coarse?.eachSpan((begin, end, rate) =>
      (ticks += rate * Math.max(0, Math.min(to, end) - Math.max(from, begin))));
  return ticks;
}

function swappedSides({ range, otherRange, otherFile }, name) {
  const files = otherFile === '' ? {} : { file: otherFile, otherFile: name };
  return { range: otherRange, otherRange: range, zoom: [], ...files };
}

function swapped(list, i) {
  const copy = [...list];
  [copy[i], copy[i + 1]] = [copy[i + 1], copy[i]];
  return copy;
}
