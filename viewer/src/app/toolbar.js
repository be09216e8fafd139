// What there is to choose around the pictures: file, question, measure, range, filters, and which
// panel is shown. All of it is rendered again whenever something changes, into the same elements.

import { button, html, live, menu, nothing, render, saving, select, toggle } from
  '../draw/controls.js';
import { h } from '../draw/dom.js';
import { csv } from '../draw/save.js';
import { lineRows } from '../model/lines.js';
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
  ['stacks', 'Over time'],
  ['traces', 'Traces'],
  ['latency', 'Latency'],
];

const SHOWS = [['busy', 'on CPU or ready'], ['waiting', 'waiting'], ['all', 'all statuses']];
const THEMES = [['', 'as the system'], ['light', 'light'], ['dark', 'dark']];
const BADGE_MS = 1000;

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.header = h('header', { class: 'header' });
    this.tabs = h('nav', { class: 'tab-bar' });
    this.questions = h('section', { class: 'bar questions', 'aria-label': 'what is counted' });
    this.lower = h('div', { class: 'bar lower-bar' }, this.tabs, this.questions);
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
    if (this.app.profile) render(this.questionsOf(), this.questions);
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
        ${file} ${this.badge} ${this.status} ${app.profile ? this.aboutOf(app.profile) : nothing}
        <span class="space"></span>
        ${this.search.element}
        ${menu('View', this.viewMenu())}
        ${menu('Save', html`${this.savers().map(saving)}`)}
        ${button('?', () => showHelp(), { title: 'keys and gestures (?)', label: 'keys' })}
      </div>
      ${this.search.result}`;
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
      ${app.source.isLive ? toggle('follow', state.follow, (follow) => app.set({ follow }),
          'show what a running session writes') : nothing}`;
  }

  savers() {
    const { app } = this;
    if (!app.profile) return [];
    const { heat } = app;
    return [
      ...(app.state.heat ? [{ what: 'the heatmap', name: `heatmap-${app.measure?.id}`, makers: {
        PNG: () => heat.canvas,
        CSV: () => heat.toCsv(),
      } }] : []),
      { what: 'the lines', name: 'lines', makers: {
        CSV: async () => csv(await lineRows(app.profile)) } },
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
    const facts = [counted(profile.lookCount, 'sample'),
      processes === 1 ? '1 process' : `${exact(processes)} processes`,
      ...began.map((time) => `${seconds(profile.durationUs)} from ${time}`)].join(', ');
    return html`
      ${menu(html`${node === '' ? nothing : html`<strong class="node">${node}</strong> `}<span
        class="facts">${facts}</span>`, html`<p>${[...about, facts].join(', ')}</p>
        <dl>${options.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`,
      'about')}
      ${coarse === null ? nothing : html`<span class="coarse" title=${coarse.long}
          tabindex="0">${coarse.short}</span>`}
      ${damageOf(profile)}`;
  }

  // --------------------------------------------------------------- questions

  questionsOf() {
    const { app } = this;
    const { state, profile } = app;
    const options = app.panel.options?.();
    return html`
      ${profile.isOfAllocations ? nothing : this.measureOf()} ${this.otherQuestion()}
      <output id="range">${rangeText(state.range, profile)}</output>
      ${state.range === null ? nothing : button('×', () => app.set({ range: null, zoom: [] }),
          { class: 'whole', title: 'whole profile (Escape)', label: 'whole profile' })}
      ${state.trace === '' ? nothing : button(`${state.trace} ×`, () =>
          app.set({ trace: '', zoom: [] }), { class: 'chip', title: 'all traces' })}
      ${state.pids.map((pid) => button(`${this.nameOf(pid)} ×`, () =>
          app.set({ pids: state.pids.filter((one) => one !== pid), zoom: [] }),
          { class: 'chip', title: `${pid}: show other processes again` }))}
      ${state.hide.map((module) => button(`${module} hidden ×`, () =>
          app.set({ hide: state.hide.filter((one) => one !== module), zoom: [] }),
          { class: 'chip' }))}
      <span class="space"></span>
      ${options ? menu('Options', options, 'options') : nothing}`;
  }

  // Questions, and any other metric. What a profile does not have cannot be chosen.
  measureOf() {
    const { app } = this;
    const { show } = app.state;
    const measures = measuresOf(app.profile);
    const measure = app.measure ?? measures[0];
    const asked = questionOf(measure.id, show);
    const choose = ({ target: { value } }) => app.set({ zoom: [],
      ...(QUESTIONS.find(({ id }) => value === `?${id}`)?.state ?? { measure: value }) });
    const option = (id, title, help, isOn, isOff = false) => html`<option value=${id} title=${help}
      ?disabled=${isOff} .selected=${live(isOn)}>${title}</option>`;
    return html`<select aria-label="measure" title=${helpOf(measure, asked)} @change=${choose}>
      <optgroup label="questions">${QUESTIONS.map((question) => option(`?${question.id}`,
          question.title, question.help, question === asked,
          !measures.some(({ id }) => id === question.state.measure)))}</optgroup>
      <optgroup label="metrics">${measures.map(({ id, title, help }) => option(id, title, help,
          asked === undefined && id === measure.id))}</optgroup></select>`;
  }

  /** Of options: of which statuses samples are counted. */
  statuses() {
    const { app } = this;
    return app.profile.isOfAllocations ? nothing : html`<label>statuses ${select('statuses', SHOWS,
        app.state.show, (show) => app.set({ show, chains: false, zoom: [] }))}</label>`;
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

  // -------------------------------------------------------------------- tabs

  tabsOf() {
    const { app } = this;
    return html`
      <div class="tabs" role="tablist" aria-label="panels" @keydown=${(event) => this.key(event)}>
        ${this.views.map(([id, title]) => html`<button type="button" role="tab" id=${`tab-${id}`}
          aria-controls="panel" aria-selected=${app.state.view === id}
          tabindex=${app.state.view === id ? 0 : -1}
          @click=${() => this.choose(id)}>${title}</button>`)}
      </div>`;
  }

  /** Without what this page cannot do; few files have traces. */
  get views() {
    const { app } = this;
    const isOfAllocations = app.profile?.isOfAllocations;
    const hasTraces = app.state.view === 'traces' || app.profile?.header.trace !== undefined;
    return VIEWS.filter(([id]) => (id !== 'traces' || hasTraces)
        && (id !== 'stacks' || !isOfAllocations)
        && (id !== 'processes' || app.source.isLive || !isOfAllocations)
        && (id !== 'latency' || app.measuredNode !== null)).map(([id, title]) =>
        [id, isOfAllocations && id === 'processes' ? 'Processes, collections' : title]);
  }

  choose(view) {
    const { app } = this;
    app.panelBox.setAttribute('aria-labelledby', `tab-${view}`);
    if (getComputedStyle(this.tabs).position === 'fixed') app.panelBox.scrollIntoView();
    // A comparison of a profile with itself shows nothing: it begins with its halves.
    const { state: { range, otherRange, otherFile }, profile } = app;
    const isEmpty = view === 'compare' && otherFile === '' && range === null && otherRange === null;
    const half = isEmpty ? Math.floor((profile?.durationUs ?? 0) / 2) : 0;
    app.set({ view, ...(half > 0 ? { range: [half, profile.durationUs], otherRange: [0, half] }
      : {}) });
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
