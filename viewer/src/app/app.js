// The page: the selection (state.js) decides what is counted (model/), and
// that is shown (draw/). render() is the one way from the first to the last.

import { Names } from '../model/names.js';
import { openProfile } from '../model/profile.js';
import { makeHeat } from '../model/heat.js';
import { heatScale } from '../model/heat_scale.js';
import { measureOf } from '../model/measures.js';
import { chained } from '../model/chains.js';
import { matchesOf } from '../model/search.js';
import { select } from '../model/selection.js';
import { ramp } from '../draw/palette.js';
import { h, hideTip, isDark } from '../draw/dom.js';
import { HeatView } from '../draw/heat_view.js';
import { splitter } from '../draw/splitter.js';
import { formatState, movedState, parseState } from './state.js';
import { otherChains } from './chains_control.js';
import { findSource, StaleError, UnreachableError } from './source.js';
import { FlamePanel } from './flame_panel.js';
import { LazyPanel } from './lazy_panel.js';
import { ProcessPanel } from './process_panel.js';
import { SandwichPanel } from './sandwich_panel.js';
import { StacksPanel } from './stacks_panel.js';
import { TimelinePanel } from './timeline_panel.js';
import { TracePanel } from './trace_panel.js';
import { Toolbar } from './toolbar.js';
import { showHelp } from './help.js';

const LOOK_MS = 2000; // how often a running session's file is looked at
const LIST_MS = 5000; // how long the list of files is right enough while one of them grows
const SETTLE_MS = 300;
const RENEWALS_MOST = 3;
const UNPAINTED_MS = 100;
const NO_PROFILE = 'There is no profile in this directory yet. ' +
    'flame_prof:start(#{dir => Directory}) writes one';

export class App {
  constructor(root) {
    this.root = root;
    this.source = findSource();
    this.state = parseState(location.hash);
    this.names = new Names();
    this.profiles = [];
    this.opened = new Map(); // name -> {profile, version}
    this.opening = new Map(); // name -> Promise of the profile
    this.made = new Map(); // what was counted, by panel: {key, value}
    this.turn = 0;
    this.measuredNode = null; // whose calls can be measured
    this.failure = null; // why the last render() did not show what was chosen
    this.isShown = false; // has there been a picture?
    this.renewals = 0; // since then, of indexes that the server has no more
    this.clockAheadUs = 0; // of the server's clock
    this.matches = matchesOf(null, ''); // of search.js: what is searched for
    this.toolbar = new Toolbar(this);
    this.heat = new HeatView({
      onSelect: (range) => this.set({ range, zoom: [] }),
      onOther: (otherRange) => this.set({ otherRange, otherFile: '', view: 'compare' }),
      onSlide: (range) => this.slide({ range, zoom: [] }),
    });
    this.heatPanel = h('div', { class: 'heat-panel' }, this.heat.element);
    this.timeline = new TimelinePanel(this);
    this.panels = {
      flame: new FlamePanel(this, false),
      compare: new FlamePanel(this, true),
      processes: new ProcessPanel(this),
      sandwich: new SandwichPanel(this),
      stacks: new StacksPanel(this),
      traces: new TracePanel(this),
      latency: new LazyPanel(this, 'latency'),
      allocations: new LazyPanel(this, 'allocations'),
    };
    this.message = h('p', { class: 'message', role: 'alert', hidden: true });
    this.panelBox = h('div', { id: 'panel', role: 'tabpanel', tabindex: '-1',
        'aria-labelledby': `tab-${this.state.view}` });
  }

  async start() {
    this.root.replaceChildren(
      this.toolbar.header,
      this.message,
      this.timeline.element,
      splitter(this.root, this.timeline.element),
      this.toolbar.lower,
      h('main', {}, this.panelBox),
    );
    addEventListener('hashchange', () => this.arrive());
    addEventListener('keydown', (event) => this.key(event));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.repaint());
    this.applyTheme();
    this.toolbar.update();
    try {
      await this.look();
      await this.render();
    } catch (error) {
      this.fail(error);
    }
    if (this.source.isLive) this.watch();
  }

  // ------------------------------------------------------------------- state

  /** The person chose something. */
  set(changes, isGoingOn = false) {
    this.state = { ...this.state, ...changes };
    const address = formatState(this.state);
    const name = address === '#' ? location.pathname : address;
    const change = isGoingOn ? 'replaceState' : 'pushState';
    if (address !== location.hash) history[change](null, '', name);
    this.render();
  }

  /** The person types: Back goes to before the first letter. */
  type(changes) {
    this.set(changes, this.typedTo === location.hash);
    this.typedTo = location.hash;
  }

  /** The person is about to choose: the page follows at once, the address when it is done. */
  async slide(changes) {
    this.state = { ...this.state, ...changes };
    this.isToSlide = true;
    if (this.isSliding) return;
    this.isSliding = true;
    while (this.isToSlide) {
      this.isToSlide = false;
      await this.render();
    }
    this.isSliding = false;
  }

  /** The same of what has no end, as a wheel: where it stays is what was chosen. */
  glide(changes) {
    this.slide(changes);
    clearTimeout(this.gliding);
    this.gliding = setTimeout(() => history.replaceState(null, '', formatState(this.state)),
        SETTLE_MS);
  }

  /** The address was changed: Back, a link, by hand. */
  arrive() {
    this.state = parseState(location.hash);
    this.render();
  }

  applyTheme() {
    document.documentElement.dataset.theme = this.state.theme
        || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  }

  get palette() {
    return ramp(isDark());
  }

  get only() {
    const { pids, trace, show } = this.state;
    return { pids, trace, show: this.profile?.isOfAllocations ? 'all' : show };
  }

  /** The samples that the panels count; as chains those of any status. */
  async select(profile, range) {
    return this.state.chains && !profile.isOfAllocations
        ? select(await chained(profile), range, { ...this.only, show: 'all' })
        : select(profile, range, this.only);
  }

  key(event) {
    if (event.target.closest('input, select, textarea, dialog') || event.ctrlKey
        || event.metaKey) return;
    const view = this.toolbar.views[Number(event.key) - 1];
    if (event.key === '/') document.getElementById('search')?.focus();
    else if (event.key === '?') showHelp();
    else if (event.key === 'Escape') this.set(this.state.zoom.length > 0 ? { zoom: [] }
        : { range: null });
    else if (event.key === 'i') this.set({ icicle: !this.state.icicle });
    else if (event.key === 'v') this.set({ inverted: !this.state.inverted, zoom: [] });
    else if (event.key === 'c') this.set(otherChains(this.state));
    else if (view) this.toolbar.choose(view[0]);
    else return;
    event.preventDefault();
  }

  // ---------------------------------------------------------------- profiles

  async look() {
    const isFirst = this.names.modules === null;
    const { profiles, modules, now_us: now, measured } = await (isFirst
      ? this.source.first(this.state.file) : this.source.list());
    if (isFirst) this.names.modules = modules;
    this.measuredNode = measured ?? null;
    this.profiles = profiles;
    this.listedMs = performance.now();
    if (now) this.clockAheadUs = now - 1000 * Date.now();
    this.listedUs = this.nowUs;
    return profiles;
  }

  /** By the clock that profiles have. */
  get nowUs() {
    return 1000 * Date.now() + this.clockAheadUs;
  }

  get name() {
    return this.state.file || this.profiles[0]?.name || '';
  }

  /** Calls at one time share an index: the server forgets it when it makes another one. */
  async open(name) {
    const known = this.opened.get(name);
    if (known !== undefined) return known.profile;
    if (!this.opening.has(name)) {
      this.opening.set(name, this.read(name).finally(() => this.opening.delete(name)));
    }
    return this.opening.get(name);
  }

  async read(name) {
    const { index, version } = await this.source.open(name, (share) =>
      this.isWanted(name)
          && this.toolbar.busy(`the server reads ${name}: ${Math.round(100 * share)} %`));
    const profile = await openProfile(index, name);
    this.opened.set(name, { profile, version });
    return profile;
  }

  /** Another one may have been chosen while the server reads this one. */
  isWanted(name) {
    return [this.name, this.state.otherFile, this.turnsTo].includes(name);
  }

  /** Whether it is another profile now. What was there stays if that fails. */
  async follow(name, now) {
    const { profile, version } = this.opened.get(name);
    if (!now.live && now.version === version) return false;
    const pieces = await this.piecesBehind(name, version);
    if (pieces === null) return this.reopen(name);
    let next = profile;
    for (const { index } of pieces) next = await next.appended(index);
    if (next !== profile) this.opened.set(name, { profile: next, version: pieces.at(-1).version });
    return next !== profile;
  }

  async piecesBehind(name, version) {
    try {
      return await this.source.append(name, version);
    } catch (error) {
      if (error instanceof StaleError) return null;
      throw error;
    }
  }

  async reopen(name) {
    const before = this.opened.get(name);
    this.opened.delete(name);
    try {
      await this.open(name);
    } catch (error) {
      this.opened.set(name, before);
      throw error;
    }
    return true;
  }

  /** To the other file of a session, at the same time: to who allocates, or back. */
  turnTo(file) {
    const { profile } = this;
    this.turnsTo = file;
    this.open(file).finally(() => (this.turnsTo = null)).then((now) =>
      this.set({ ...movedTo(this.state, profile, now), file, view: 'flame', levels: null,
        zoom: [] }), (error) => this.fail(error));
  }

  // What a running session writes.
  async watch() {
    for (;;) {
      await new Promise((done) => setTimeout(done, LOOK_MS));
      if (!this.state.follow || document.hidden) continue;
      try {
        await this.lookAgain();
        this.toolbar.followed(null);
      } catch (error) {
        this.toolbar.followed(error);
      }
    }
  }

  async lookAgain() {
    const before = JSON.stringify(this.profiles);
    const isGrowing = this.opened.has(this.name)
        && this.profiles.find(({ name }) => name === this.name)?.live;
    const isListed = isGrowing && performance.now() < this.listedMs + LIST_MS;
    const profiles = isListed ? this.profiles : await this.look();
    if (JSON.stringify(profiles) !== before) this.toolbar.update();
    let isChanged = false;
    for (const name of [...this.opened.keys()]) {
      const now = profiles.find((profile) => profile.name === name);
      if (now === undefined) continue;
      // Others are opened again when they are shown.
      if (name === this.name || name === this.state.otherFile) {
        isChanged = await this.follow(name, now) || isChanged;
      } else if (now.version !== this.opened.get(name).version) this.opened.delete(name);
    }
    const isOpen = this.opened.has(this.name);
    const isSame = JSON.stringify(profiles) === before;
    const isFailed = this.failure !== null;
    // Without its server a page fails until that answers; without a profile, until there is one.
    const isToBeTried = this.failure instanceof UnreachableError
        || (!isOpen && !(isFailed && isSame));
    if (isChanged || isToBeTried) await this.render();
    else this.timeline.follow();
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
      if (isStale()) return; // one that opens the same has the same error
      if (error instanceof StaleError && this.renewals++ < RENEWALS_MOST) {
        this.opened.delete(error.file);
        return this.render();
      }
      this.fail(error);
    }
    if (isStale()) return;
    this.toolbar.busy('');
    this.root.dataset.rendered = String(turn); // what tests wait for
  }

  async renderAll(isStale) {
    if (this.name === '') {
      if (this.panel === this.panels.latency) return this.renderPanel(isStale);
      throw new Error(NO_PROFILE);
    }
    const profile = await this.open(this.name);
    if (isStale()) return;
    if (this.state.file === '') this.keepRange(this.profile, profile);
    this.profile = profile;
    this.measure = measureOf(profile, this.state.measure);
    if (this.matches.text !== this.state.search || this.matches.profile !== profile) {
      this.matches = { ...matchesOf(profile, this.state.search), profile };
    }
    this.toolbar.update();
    await this.timeline.render(isStale);
    if (!this.isShown) await painted();
    if (isStale()) return;
    await this.renderHeat(isStale);
    if (isStale()) return;
    await this.renderPanel(isStale);
    if (!isStale()) await this.toolbar.search.render(isStale);
    if (!this.isShown) await painted();
    if (isStale()) return;
    await this.timeline.renderRest(isStale);
  }

  /** A report measures nothing. */
  get panel() {
    const { profile, state: { view } } = this;
    if (view === 'processes' && profile?.isOfAllocations) {
      return this.source.isLive ? this.panels.allocations : this.panels.flame;
    }
    const isMissing = (view === 'latency' && this.measuredNode === null)
        || (view === 'stacks' && (profile?.isOfAllocations || this.timeline.axis === undefined));
    return this.panels[isMissing ? 'flame' : view];
  }

  async renderPanel(isStale) {
    const { element } = this.panel;
    if (this.panelBox.firstChild !== element) this.panelBox.replaceChildren(element);
    await this.panel.render(isStale);
  }

  // The oldest file of a running session was removed: its begin is another now.
  keepRange(before, now) {
    if (!before || before.startUs === now.startUs) return;
    this.state = movedTo(this.state, before, now);
    history.replaceState(null, '', formatState(this.state));
  }

  async renderHeat(isStale) {
    const { profile, measure, state } = this;
    this.heatPanel.hidden = !state.heat || profile.isOfAllocations;
    if (this.heatPanel.hidden) return;
    const all = await select(profile, null, this.only);
    const { axis } = this.timeline;
    const { starts } = await profile.ticks();
    const scale = heatScale(profile.durationUs, axis, state.rows, starts);
    const heat = await this.once('heat', [profile, measure.id, scale, state.pids, state.trace,
      state.show],
        () => makeHeat(all, measure, scale));
    if (isStale()) return;
    this.heat.show({
      heat,
      axis,
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
    this.isShown = true;
    this.renewals = 0;
    this.message.hidden = true;
    delete this.root.dataset.old;
  }

  /** Pictures that were there before stay, and look as if they were not of now. */
  fail(error) {
    console.error(error);
    this.failure = error;
    const isOld = this.isShown;
    this.message.textContent = isOld ? `${error.message}. The pictures show what was there before.`
        : error.message;
    this.message.hidden = false;
    if (isOld) this.root.dataset.old = '';
    this.toolbar.busy('');
    this.root.dataset.rendered = 'failed';
  }
}

/** The same time in another profile. One without a sample has no begin yet. */
function movedTo(state, before, now) {
  return before.rows === 0 || now.rows === 0 ? state
      : movedState(state, before.startUs - now.startUs);
}

// At first a person sees each part when it is there, not all of them at the end. A page that is not
// on a screen has no frames.
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, UNPAINTED_MS);
  });
}

// The same name with a newer index is another profile.
const numbers = new WeakMap();
let last = 0;

function numberOf(profile) {
  if (!numbers.has(profile)) numbers.set(profile, ++last);
  return numbers.get(profile);
}
