// The page: the selection (state.js) decides what is counted (model/), and
// that is shown (draw/). render() is the one way from the first to the last.

import { Names } from '../model/names.js';
import { openProfile } from '../model/profile.js';
import { makeHeat } from '../model/heat.js';
import { makeLines } from '../model/lines.js';
import { measureOf } from '../model/measures.js';
import { select } from '../model/selection.js';
import { PALETTES } from '../draw/palette.js';
import { h, hideTip } from '../draw/dom.js';
import { HeatView } from '../draw/heat_view.js';
import { formatState, parseState } from './state.js';
import { findSource, StaleError, UnreachableError } from './source.js';
import { FlamePanel } from './flame_panel.js';
import { ProcessPanel } from './process_panel.js';
import { SandwichPanel } from './sandwich_panel.js';
import { Toolbar } from './toolbar.js';

const LOOK_MS = 2000; // how often a running session's file is looked at

export class App {
  constructor(root) {
    this.root = root;
    this.source = findSource();
    this.state = parseState(location.hash);
    this.names = new Names();
    this.profiles = [];
    this.opened = new Map(); // name -> {profile, version}
    this.made = new Map(); // what was counted, by panel: {key, value}
    this.turn = 0;
    this.failure = null; // why the last render() did not show what was chosen
    this.toolbar = new Toolbar(this);
    this.heat = new HeatView({ onSelect: (range) => this.set({ range, zoom: [] }) });
    this.panels = {
      flame: new FlamePanel(this, false),
      compare: new FlamePanel(this, true),
      processes: new ProcessPanel(this),
      sandwich: new SandwichPanel(this),
    };
    this.message = h('p', { class: 'message', role: 'alert', hidden: true });
    this.panelBox = h('main', { id: 'panel' });
  }

  async start() {
    this.root.replaceChildren(
      this.toolbar.header,
      this.message,
      h('section', { class: 'panel heat-panel', 'aria-label': 'heatmap' }, this.toolbar.heatBar,
          this.heat.element),
      this.toolbar.tabs,
      this.panelBox,
    );
    addEventListener('hashchange', () => this.arrive());
    addEventListener('keydown', (event) => this.key(event));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.repaint());
    this.applyTheme();
    try {
      this.names.modules = await this.source.modules();
      await this.look();
    } catch (error) {
      this.fail(error);
      return;
    }
    await this.render();
    if (this.source.isLive) this.watch();
  }

  // ------------------------------------------------------------------- state

  /** The person chose something. */
  set(changes) {
    this.state = { ...this.state, ...changes };
    const address = formatState(this.state);
    if (address !== location.hash) history.pushState(null, '', address === '#' ? location.pathname
        : address);
    this.render();
  }

  /** The person types: Back goes to before the first letter. */
  type(changes) {
    const isGoingOn = this.typedTo === location.hash;
    this.state = { ...this.state, ...changes };
    const address = formatState(this.state);
    if (address !== location.hash) {
      const name = address === '#' ? location.pathname : address;
      if (isGoingOn) history.replaceState(null, '', name);
      else history.pushState(null, '', name);
    }
    this.typedTo = location.hash;
    this.render();
  }

  /** The address was changed: Back, a link, by hand. */
  arrive() {
    this.state = parseState(location.hash);
    this.render();
  }

  applyTheme() {
    if (this.state.theme === '') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.state.theme;
  }

  get palette() {
    return PALETTES[this.state.palette];
  }

  get only() {
    return { pids: this.state.pids, isIdleHidden: this.state.busy };
  }

  key(event) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey
        || event.metaKey) return;
    const views = ['flame', 'compare', 'processes', 'sandwich'];
    if (event.key === '/') document.getElementById('search')?.focus();
    else if (event.key === 'Escape') this.set(this.state.zoom.length > 0 ? { zoom: [] }
        : { range: null });
    else if (event.key === 'i') this.set({ icicle: !this.state.icicle });
    else if (event.key === 'v') this.set({ inverted: !this.state.inverted, zoom: [] });
    else if (views[Number(event.key) - 1]) this.set({ view: views[Number(event.key) - 1] });
    else return;
    event.preventDefault();
  }

  // ---------------------------------------------------------------- profiles

  async look() {
    const { profiles } = await this.source.list();
    this.profiles = profiles;
    return profiles;
  }

  get name() {
    return this.state.file || this.profiles[0]?.name || '';
  }

  async open(name) {
    const known = this.opened.get(name);
    if (known !== undefined) return known.profile;
    const { index, version } = await this.source.open(name, (share) =>
      this.toolbar.busy(`the server reads ${name}: ${Math.round(100 * share)} %`));
    const profile = await openProfile(index, name);
    this.opened.set(name, { profile, version });
    return profile;
  }

  // New flushes of a running session: its file has grown, its index is made anew.
  async watch() {
    for (;;) {
      await new Promise((done) => setTimeout(done, LOOK_MS));
      if (!this.state.follow || document.hidden) continue;
      try {
        await this.lookAgain();
      } catch (error) {
        this.toolbar.busy(`not followed: ${error.message}`);
      }
    }
  }

  async lookAgain() {
    const before = JSON.stringify(this.profiles);
    const profiles = await this.look();
    if (JSON.stringify(profiles) !== before) this.toolbar.update();
    const changed = [...this.opened].filter(([name, { version }]) => {
      const now = profiles.find((profile) => profile.name === name);
      return now !== undefined && now.version !== version;
    });
    const isOpen = this.opened.has(this.name);
    const isSame = JSON.stringify(profiles) === before;
    const isFailed = this.failure !== null;
    // Without its server a page fails until that answers; without a profile, until there is one.
    const isToBeTried = this.failure instanceof UnreachableError
        || (!isOpen && !(isFailed && isSame));
    if (changed.length === 0 && !isToBeTried) return;
    for (const [name, before] of changed) {
      this.opened.delete(name);
      try {
        await this.open(name);
      } catch (error) {
        this.opened.set(name, before); // what was seen stays
        throw error;
      }
    }
    await this.render();
  }

  // --------------------------------------------------------------- rendering

  /** Again with what there is: another theme, palette or size. */
  repaint() {
    this.heat.image = null;
    this.render();
  }

  async render() {
    const turn = ++this.turn;
    const isStale = () => turn !== this.turn;
    this.applyTheme();
    hideTip(); // its numbers may be those of before
    this.toolbar.update();
    this.toolbar.busy('counting');
    try {
      await this.renderAll(isStale);
      if (!isStale()) this.succeed();
    } catch (error) {
      if (error instanceof StaleError) return this.renew();
      if (!isStale()) this.fail(error);
    }
    if (isStale()) return;
    this.toolbar.busy('');
    this.root.dataset.rendered = String(turn); // what tests wait for
  }

  renew() {
    this.opened.delete(this.name);
    return this.render();
  }

  async renderAll(isStale) {
    if (this.name === '') throw new Error('there is no profile in this directory yet');
    const profile = await this.open(this.name);
    if (isStale()) return;
    if (this.state.file === '') this.keepRange(this.profile, profile);
    this.profile = profile;
    this.measure = measureOf(profile, this.state.measure);
    this.toolbar.update();
    await this.renderHeat(isStale);
    if (isStale()) return;
    const panel = this.panels[this.state.view];
    if (this.panelBox.firstChild !== panel.element) this.panelBox.replaceChildren(panel.element);
    await panel.render(isStale);
    if (!isStale()) await this.renderLines(isStale);
  }

  // The oldest file of a running session was removed: its begin is another now.
  keepRange(before, now) {
    const { range } = this.state;
    if (!before || !range || before.startUs === now.startUs) return;
    const moved = range.map((us) => Math.max(0, us + before.startUs - now.startUs));
    this.state = { ...this.state, range: moved[1] > moved[0] ? moved : null };
    history.replaceState(null, '', formatState(this.state));
  }

  // Last: they need columns that nothing else may need.
  async renderLines(isStale) {
    const { profile, state } = this;
    const lines = await this.once('lines', [profile, state.pids, state.busy], () =>
        makeLines(profile, this.only));
    if (!isStale()) this.heat.showLines(lines);
  }

  async renderHeat(isStale) {
    const { profile, measure, state } = this;
    const theme = getComputedStyle(document.documentElement).colorScheme;
    const all = await select(profile, null, this.only);
    const heat = await this.once('heat', [profile, measure.id, state.rows, state.pids, state.busy],
        () =>
      makeHeat(all, measure, state.rows));
    if (isStale()) return;
    if (theme !== this.heatTheme) this.heat.image = null;
    this.heatTheme = theme;
    this.heat.show({
      heat,
      palette: this.palette,
      range: state.range,
      other: state.view === 'compare' && state.otherFile === '' ? state.otherRange : null,
      startUs: profile.startUs,
    });
    this.root.dataset.heat = String(this.turn);
  }

  /** Counted once for as long as what it depends on stays the same. */
  once(what, key, make) {
    const text = key.map((part) => (part?.index ? `${part.name} ${numberOf(part)}`
        : JSON.stringify(part))).join('|');
    const known = this.made.get(what);
    if (known?.text === text) return known.value;
    const value = make();
    const made = { text, value };
    this.made.set(what, made);
    value.catch(() => this.made.get(what) === made && this.made.delete(what));
    return value;
  }

  succeed() {
    this.failure = null;
    this.message.hidden = true;
    delete this.root.dataset.old;
  }

  /** Pictures that were there before stay, and look as if they were not of now. */
  fail(error) {
    console.error(error);
    this.failure = error;
    const isOld = this.profile !== undefined;
    this.message.textContent = isOld ? `${error.message}. The pictures show what was there before.`
        : error.message;
    this.message.hidden = false;
    if (isOld) this.root.dataset.old = '';
    this.toolbar.busy('');
    this.root.dataset.rendered = 'failed';
  }
}

// The same name with a newer index is another profile.
const numbers = new WeakMap();
let last = 0;

function numberOf(profile) {
  if (!numbers.has(profile)) numbers.set(profile, ++last);
  return numbers.get(profile);
}
