// What there is to choose around the pictures: file, question, measure, range, filters, and which
// panel is shown. All of it is rendered again whenever something changes, into the same elements.

import { button, html, menu, nothing, render, saving, select, swatch, toggle } from
  '../draw/controls.js';
import { h } from '../draw/dom.js';
import { csv } from '../draw/save.js';
import { PALETTES, kindSample } from '../draw/palette.js';
import { KINDS } from '../model/kinds.js';
import { lineRows, makeLines } from '../model/lines.js';
import { measuresOf } from '../model/measures.js';
import { coarseText } from '../model/coarse.js';
import { clock, counted, date, exact, seconds, short } from '../model/numbers.js';
import { QUESTIONS, questionOf } from '../model/questions.js';
import { showHelp } from './help.js';
import { badgeText } from './recording.js';
import { sessionOf } from './session.js';
import { SearchBox } from './search_box.js';

const VIEWS = [
  ['flame', 'Flame graph'],
  ['compare', 'Compare'],
  ['processes', 'Processes'],
  ['sandwich', 'Sandwich'],
  ['traces', 'Traces'],
  ['latency', 'Latency'],
];

const SHOWS = [['busy', 'on CPU or ready'], ['waiting', 'waiting'], ['all', 'all statuses']];
const THEMES = [['', 'as the system'], ['light', 'light'], ['dark', 'dark']];
const ROWS = [[0, 'whole ticks'], [10, '100 ms'], [25, '40 ms'], [50, '20 ms'], [100, '10 ms']];
const BADGE_MS = 1000;

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.header = h('header', { class: 'panel header' });
    this.questions = h('section', { class: 'panel questions', 'aria-label': 'what is counted' });
    this.tabs = h('nav', { class: 'bar tab-bar' });
    this.search = new SearchBox(app);
    this.status = h('span', { class: 'busy', role: 'status' });
    this.badge = h('span', { class: 'badge' });
    this.unfollowed = null; // why a running session is not followed
    if (app.source.isLive) setInterval(() => this.updateBadge(), BADGE_MS);
  }

  busy(text) {
    this.status.textContent = text;
  }

  /** @param failure of the last attempt to see what a running session has written, or null */
  followed(failure) {
    this.unfollowed = failure;
    this.updateBadge();
  }

  update() {
    render(this.headerOf(), this.header);
    this.search.update();
    render(this.tabsOf(), this.tabs);
    this.updateBadge();
    if (!this.app.profile) return;
    render(this.questionsOf(), this.questions);
  }

  updateBadge() {
    const { app } = this;
    this.badge.textContent = app.source.isLive ? badgeText({
      profiles: app.profiles,
      profile: app.profile?.name === app.name ? app.profile : null,
      nowUs: app.nowUs,
      listedUs: app.listedUs,
      isFollowed: app.state.follow,
      failure: this.unfollowed,
    }) : '';
    this.badge.hidden = this.badge.textContent === '';
    this.badge.dataset.kind = this.badge.textContent.split(/[ ,:]/)[0];
  }

  // ------------------------------------------------------------------ header

  headerOf() {
    const { app } = this;
    const file = app.source.isLive
      ? select('profile', app.profiles.map((one) => [one.name, titleOf(one)]), app.name, (name) =>
          app.set({ file: name, range: null, time: null, zoom: [], pids: [] }))
      : html`<span class="file">${app.name}</span>`;
    return html`
      <div class="bar">
        <a class="skip" href="#panel" @click=${(event) => this.skip(event)}>to the panel</a>
        <strong class="brand">flame_prof</strong>
        ${file} ${this.badge} ${this.status}
        <span class="space"></span>
        ${this.search.element}
        ${menu('View', this.viewMenu())}
        ${menu('Save', html`${this.savers().map(saving)}`)}
        ${this.foldButton()}
        ${button('?', () => showHelp(), { title: 'the keys (?)', label: 'keys' })}
      </div>
      ${this.search.result}
      ${app.profile ? this.aboutOf(app.profile) : nothing}`;
  }

  // Where there is little room.
  foldButton() {
    const { root } = this.app;
    const isOpen = root.dataset.unfolded !== undefined;
    return html`<button type="button" class="toggle fold-button" aria-pressed=${isOpen}
      @click=${() => {
        root.toggleAttribute('data-unfolded', !isOpen);
        this.update();
      }}>controls</button>`;
  }

  skip(event) {
    event.preventDefault(); // the address is the state
    this.app.panelBox.focus();
  }

  viewMenu() {
    const { app } = this;
    const { state } = app;
    return html`
      <label>theme ${select('theme', THEMES, state.theme, (theme) => app.set({ theme }))}</label>
      <label>colours ${select('palette', Object.entries(PALETTES).map(([id, { title }]) =>
          [id, title]), state.palette, (palette) => app.set({ palette }))}</label>
      ${app.source.isLive ? toggle('follow', state.follow, (follow) => app.set({ follow }),
          'show what a running session writes') : nothing}`;
  }

  savers() {
    const { app } = this;
    if (!app.profile) return [];
    const { heat } = app;
    return [
      ...(app.state.heat ? [{ what: 'the heatmap', name: `heatmap-${app.measure?.id}`, makers: {
        SVG: () => heat.toSvg(),
        PNG: () => heat.toCanvas(),
        CSV: () => heat.toCsv(),
      } }] : []),
      { what: 'the lines', name: 'lines', makers: {
        CSV: async () => csv(lineRows(await makeLines(app.profile, app.only))) } },
      ...app.timeline.allocators.savers(),
      ...app.panel.savers(),
    ];
  }

  aboutOf(profile) {
    const { node, about, options } = sessionOf(profile);
    const coarse = coarseText(profile);
    const began = profile.rows === 0 ? [] : [`${date(profile.startUs)} ${clock(profile.startUs)}`];
    document.title = `${[node || profile.name, ...began].join(', ')} - flame_prof`;
    const processes = profile.processCount - profile.isOwn.reduce((sum, n) => sum + n, 0);
    return html`<div class="bar about">
      ${node === '' ? nothing : html`<strong class="node">${node}</strong>`}
      ${about.map((text) => html`<span class="fold">${text}</span>`)}
      <span class="facts">${[counted(profile.lookCount, 'sample'),
          processes === 1 ? '1 process' : `${exact(processes)} processes`,
          ...began.map((time) => `${seconds(profile.durationUs)} from ${time}`)].join(', ')}</span>
      ${coarse === null ? nothing : html`<span class="coarse" title=${coarse.long}
          tabindex="0">${coarse.short}</span>`}
      ${damageOf(profile)}
      ${options.length === 0 ? nothing : menu('options', html`<dl>${options.map(([name, value]) =>
          html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`, 'fold')}
    </div>`;
  }

  // --------------------------------------------------------------- questions

  questionsOf() {
    const { app } = this;
    const { state, profile } = app;
    const measures = measuresOf(profile);
    const measure = app.measure ?? measures[0];
    const asked = questionOf(measure.id, state.show);
    const isOfSamples = !profile.isOfAllocations;
    return html`
      <div class="bar">
        <span class="asked" role="group" aria-label="question">${isOfSamples
            ? QUESTIONS.map((question) => this.question(question, question === asked, measures))
            : nothing}${this.otherQuestion()}</span>
        ${button('whole profile', () => app.set({ range: null, zoom: [] }),
            { class: 'whole', isOff: state.range === null })}
        <output id="range">${rangeText(state.range, profile)}</output>
        ${isOfSamples ? this.heatBarOf() : nothing}
        ${state.trace === '' ? nothing : button(`${state.trace} ×`, () =>
            app.set({ trace: '', zoom: [] }), { class: 'chip', title: 'all traces' })}
        ${state.pids.map((pid) => button(`${this.nameOf(pid)} ×`, () =>
            app.set({ pids: state.pids.filter((one) => one !== pid), zoom: [] }),
            { class: 'chip', title: `${pid}: show other processes again` }))}
        <span class="space"></span>
        ${isOfSamples ? html`<label class="fold">more ${select('measure', measures.map((one) =>
            [one.id, one.title, one.help]), measure.id, (id) =>
            app.set({ measure: id, zoom: [] }))}</label>
        <label class="fold">${select('statuses', SHOWS, state.show, (show) =>
            app.set({ show, chains: false, zoom: [] }))}</label>` : nothing}
      </div>
      <span class="muted help">${helpOf(measure, asked)}</span>`;
  }

  question({ title, help, state }, isAsked, measures) {
    const has = measures.some(({ id }) => id === state.measure);
    return html`<button type="button" class="toggle" aria-pressed=${isAsked} ?disabled=${!has}
      title=${has ? help : `${help}: this profile does not have it`}
      @click=${() => this.app.set({ ...state, zoom: [] })}>${title}</button>`;
  }

  // Samples and allocations of one session are files of their own. The server tells of the other.
  otherQuestion() {
    const { app } = this;
    const { isOfAllocations: isAsked } = app.profile;
    const other = app.profiles.find(({ name }) => name === app.name)?.other;
    return other ? html`<button type="button" class="toggle" aria-pressed=${isAsked}
      title="in the same time" @click=${() => app.turnTo(other)}
      >who allocates${isAsked ? ' ×' : ''}</button>` : nothing;
  }

  nameOf(pid) {
    const { profile } = this.app;
    const known = this.pidNames?.profile === profile ? this.pidNames : null;
    this.pidNames = known ?? { profile, names: new Map(Array.from(
        { length: profile.processCount }, (_, p) => [profile.pid(p), profile.label(p)])) };
    const name = this.pidNames.names.get(pid);
    return name === undefined || name === pid ? pid : `${name} ${pid}`;
  }

  heatBarOf() {
    const { app } = this;
    const { heat, rows } = app.state;
    return html`${toggle('heatmap', heat, (isShown) => app.set({ heat: isShown }),
        'the microscope: parts of a second')}
      ${heat ? html`<label>${select('rows', ROWS, rows, (n) =>
          app.set({ rows: Number(n) }))} a cell</label>` : nothing}`;
  }

  // -------------------------------------------------------------------- tabs

  tabsOf() {
    const { app } = this;
    return html`
      <div class="tabs" role="tablist" aria-label="panels" @keydown=${(event) => this.key(event)}>
        ${this.views.map(([id, title]) => html`<button type="button" role="tab" id=${`tab-${id}`}
          aria-controls="panel" aria-selected=${app.state.view === id}
          tabindex=${app.state.view === id ? 0 : -1}
          @click=${() => this.choose(id)}>${title}</button>`)}
      </div>
      <span class="space"></span>
      <span class="kinds" ?hidden=${['processes', 'latency'].includes(app.state.view)}
        >${KINDS.map((kind) => swatch(kind, kindSample(kind)))}</span>`;
  }

  /** Without what this page cannot do; few files have traces. */
  get views() {
    const { app } = this;
    const isOfAllocations = app.profile?.isOfAllocations;
    const hasTraces = app.state.view === 'traces' || app.profile?.header.trace !== undefined;
    return VIEWS.filter(([id]) => (id !== 'traces' || hasTraces)
        && (id !== 'processes' || app.source.isLive || !isOfAllocations)
        && (id !== 'latency' || app.measuredNode !== null)).map(([id, title]) =>
        [id, isOfAllocations && id === 'processes' ? 'Processes, collections' : title]);
  }

  choose(view) {
    const { app } = this;
    app.panelBox.setAttribute('aria-labelledby', `tab-${view}`);
    if (getComputedStyle(this.tabs).position === 'fixed') app.panelBox.scrollIntoView();
    app.set({ view });
  }

  key(event) {
    const { views } = this;
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -views.length, End: views.length };
    const step = steps[event.key];
    if (step === undefined) return;
    const at = views.findIndex(([id]) => id === this.app.state.view);
    const last = views.length - 1;
    const next = Math.abs(step) === 1 ? (at + step + views.length) % views.length
        : Math.max(0, Math.min(last, at + step));
    this.choose(views[next][0]);
    this.tabs.querySelectorAll('[role=tab]')[next].focus();
    event.preventDefault();
  }
}

function helpOf({ title, help }, question) {
  const text = help === '' ? title : `${title}: ${help}`;
  return question === undefined ? text : `${question.help}; ${text}`;
}

function titleOf({ name, files, bytes, state, why }) {
  const parts = [...(files > 1 ? [`${files} files`] : []), short(bytes, 'bytes'),
      ...(state === 'file' ? [] : [why])];
  return `${name} (${parts.join(', ')})`;
}

// How much the missing text had is an estimate: as much as the rest of it.
function damageOf({ lookCount, durationUs, header: { files, warnings, warning_count: count } }) {
  const sum = (key) => files.reduce((all, file) => all + (file[key] ?? 0), 0);
  if (sum('bytes') === 0) return html`<span class="warning">the file is empty: 0 bytes</span>`;
  if (count === 0) return nothing;
  const [bad, places, text, missing, shortened] =
      ['bad', 'damaged', 'text', 'lost_text', 'shortened'].map(sum);
  const ends = files.filter((file) => file.cut_off).length;
  const lost = [
    sum('samples') === 0 && `no sample can be read of ${short(sum('bytes'), 'bytes')}: it is no `
        + 'profile, or damaged',
    bad > 0 && `${counted(bad, 'damaged sample')} left out`,
    places > 0 && `damaged at ${counted(places, 'place')}`,
    missing > 0 && `${short(missing, 'bytes')} of ${short(text + missing, 'bytes')} of text `
        + 'missing',
    missing > 0 && text > 0 && `with them about ${counted(Math.round(lookCount * missing / text),
        'sample')} in ${seconds(Math.round(durationUs * missing / text / 1e5) * 1e5)}`,
    shortened > 0 && `${counted(shortened, 'stack')} shortened`,
    ends > 0 && `${counted(ends, 'file')} without ${ends === 1 ? 'its end' : 'their ends'}`,
  ].filter(Boolean);
  const title = warnings.map(({ file, line, what }) =>
      `${files[file]?.path ?? ''}${line > 0 ? ` line ${line}` : ''}: ${what}`).join('\n');
  return html`<span class="warning" title=${title} tabindex="0">${lost.join(', ')
      || 'damaged'}</span>`;
}

function rangeText(range, profile) {
  if (range === null) return `all ${seconds(profile.durationUs)}`;
  return `${seconds(range[0])} to ${seconds(range[1])}`;
}
