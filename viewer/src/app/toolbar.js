// What there is to choose around the heatmap: file, measure, rows, colours,
// range, filters; and which panel is below it.

import { button, h, select, swatch, toggle } from '../draw/dom.js';
import { PALETTES, kindSample } from '../draw/palette.js';
import { saveButton, saveButtons } from '../draw/save.js';
import { measuresOf } from '../model/measures.js';
import { KINDS } from '../model/kinds.js';
import { clock, exact, seconds, short } from '../model/numbers.js';

const VIEWS = [
  ['flame', 'Flame graph'],
  ['compare', 'Compare'],
  ['processes', 'Processes'],
  ['sandwich', 'Sandwich'],
];

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.header = h('header', { class: 'bar top' });
    this.heatBar = h('div', { class: 'bar' });
    this.tabs = h('nav', { class: 'tabs', role: 'tablist' });
    this.status = h('span', { class: 'busy', role: 'status' });
  }

  busy(text) {
    this.status.textContent = text;
  }

  update() {
    keepFocus(() => {
      this.updateHeader();
      this.updateHeatBar();
      this.updateTabs();
    });
  }

  updateHeader() {
    const { app } = this;
    const { state } = app;
    this.header.replaceChildren(
      h('strong', { class: 'brand' }, 'flame_prof'),
      app.source.isLive
        ? select('profile', app.profiles.map((one) => [one.name, titleOf(one)]), app.name, (file) =>
            app.set({ file, range: null, zoom: [], pids: [] }))
        : h('span', { class: 'file' }, app.name),
      this.status,
      h('span', { class: 'space' }),
      app.source.isLive ? toggle('follow', state.follow, (follow) => app.set({ follow }),
          'show what a running session flushes') : '',
      select('palette', Object.entries(PALETTES).map(([id, { title }]) => [id, title]),
          state.palette, (palette) => app.set({ palette })),
      select('theme', [['', 'as the system'], ['light', 'light'], ['dark', 'dark']], state.theme,
          (theme) => app.set({ theme })),
    );
  }

  updateHeatBar() {
    const { app } = this;
    const { state, profile } = app;
    if (!profile) return;
    this.heatBar.replaceChildren(
      h('label', {}, 'by ', select('measure', measuresOf(profile).map((m) => [m.id, m.title]),
          app.measure?.id ?? state.measure, (measure) => app.set({ measure, zoom: [] }))),
      h('label', {}, select('rows', [10, 25, 50, 100].map((n) => [n, `${1000 / n} ms`]), state.rows,
          (rows) => app.set({ rows: Number(rows) })), ' a cell'),
      button('whole profile', () => app.set({ range: null, zoom: [] }),
          { 'aria-pressed': String(state.range === null), class: 'toggle' }),
      h('output', { id: 'range' }, rangeText(state.range, profile)),
      toggle('hide idle', state.busy, (busy) => app.set({ busy, zoom: [] }),
          'leave out samples of waiting processes'),
      ...state.pids.map((pid) => button(`${pid} ×`, () =>
          app.set({ pids: state.pids.filter((one) => one !== pid), zoom: [] }),
          { class: 'chip', title: 'show other processes again' })),
      h('span', { class: 'space' }),
      this.facts(profile),
      this.saving(),
    );
  }

  facts(profile) {
    const { files, warning_count: count, warnings } = profile.header;
    const bad = files.reduce((sum, file) => sum + file.bad, 0);
    const processes = profile.processCount - profile.isOwn.reduce((sum, n) => sum + n, 0);
    const text =
        `${exact(profile.lookCount)} samples, ${exact(processes)} processes, ${seconds(profile.durationUs)} from ${clock(profile.startUs)}`;
    const title =
        warnings.map((one) =>
          (files[one.file]?.path ?? '') + (one.line > 0 ? ` line ${one.line}` : '') +
              `: ${one.what}`,
        ).join('\n');
    const places = files.reduce((sum, file) => sum + file.damaged, 0);
    const ends = files.filter((file) => file.cut_off).length;
    const lost = [
      bad > 0 && `${exact(bad)} damaged samples left out`,
      places > 0 && `text missing at ${exact(places)} places`,
      ends > 0 && `${exact(ends)} files without their ends`,
    ].filter(Boolean);
    return h('span', { class: 'facts' }, text, count > 0
        ? h('span', { class: 'warning', title, tabindex: '0' },
        ` ${lost.join(', ') || 'damaged'}`) : '');
  }

  saving() {
    const { app } = this;
    const { heat } = app;
    return h('span', { class: 'save' },
      saveButtons('the heatmap', () => `heatmap-${app.measure.id}`, {
        SVG: () => heat.toSvg(),
        PNG: () => heat.toCanvas(),
        CSV: () => heat.toCsv(),
      }),
      saveButton('the lines', 'CSV', () => 'lines', () => heat.linesToCsv(), 'lines'));
  }

  updateTabs() {
    const { app } = this;
    this.tabs.replaceChildren(
      ...VIEWS.map(([id, title]) =>
        button(title, () => app.set({ view: id }),
            { role: 'tab', 'aria-selected': String(app.state.view === id) })),
      h('span', { class: 'space' }),
      h('span', { class: 'kinds' }, KINDS.map((kind) => swatch(kind, kindSample(kind)))),
    );
  }
}

function titleOf({ name, files, bytes, state, why }) {
  const parts = [...(files > 1 ? [`${files} files`] : []), short(bytes, 'bytes'),
      ...(state === 'file' ? [] : [why])];
  return `${name} (${parts.join(', ')})`;
}

function rangeText(range, profile) {
  if (range === null) return `all ${seconds(profile.durationUs)}`;
  return `${seconds(range[0])} to ${seconds(range[1])}`;
}

// The bars are made anew; the focus stays in the successor of a control.
function keepFocus(change) {
  const { activeElement: before } = document;
  const label = before?.getAttribute?.('aria-label') ?? before?.textContent;
  change();
  if (!before || before.isConnected || before === document.body) return;
  const same = [...document.querySelectorAll(`${before.tagName}`)].find(
    (one) => (one.getAttribute('aria-label') ?? one.textContent) === label,
  );
  same?.focus();
}
