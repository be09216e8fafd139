// The time axis of the page: tracks of the node, and a lane for each process or, in place of the
// lanes, the heatmap. Above it what is odd.

import { button, html, menu, nothing, render, select, toggle } from '../draw/controls.js';
import { h, isDark } from '../draw/dom.js';
import { activityColours, lineStyles, seriesColours } from '../draw/palette.js';
import { TimelineView } from '../draw/timeline_view.js';
import { allocatorTrackOf, memoryTrackOf } from '../draw/memory_track.js';
import { activityTrackOf, matchesTrackOf, runQueueTrackOf, samplingTrackOf,
  schedulersTrackOf } from '../draw/tracks.js';
import { worded } from '../model/activity.js';
import { placeAt } from '../model/by_process.js';
import { lossesOf } from '../model/losses.js';
import { LANE_LINES, lineValues, makeLanes, makeSchedulers } from '../model/lanes.js';
import { laneList } from '../model/lane_list.js';
import { matchingRows } from '../model/search.js';
import { nodeTracks } from '../model/node_tracks.js';
import { waitsOf } from '../model/waits.js';
import { counted, exact, isKnown, percent, seconds } from '../model/numbers.js';
import { AllocatorsPanel } from './allocators_panel.js';
import { FindingsPanel } from './findings_panel.js';

const ORDERS = [['odd', 'findings first'], ['cpu', 'CPU'], ['name', 'name']];
const LEGEND = ['running', 'ready', 'collecting', 'waiting', 'not sampled'];
const BLANK = 'of a scheduler: idle, or not sampled';
const FOLDS = [['', 'a lane each process'], ['application', 'a lane each application'],
  ['call', 'a lane each initial call'], ['heat', 'heatmap']];
const ROWS = [[0, 'whole ticks'], [10, '100 ms'], [25, '40 ms'], [50, '20 ms'], [100, '10 ms']];

const NO_LANES = [];
const FEW_TRACKS = ['activity', 'memory', 'allocator', 'matches', 'allocated'];
const LOW = 800; // pixels of a window in which memory has no room at first
// Of the page's height, in pixels: the controls and findings of the timeline, its usual lanes, and
// what is shown in their place or below them.
const [HEAD, LANES, HEATMAP, TABLE, PAGE] = [92, 200, 250, 150, 900];

export class TimelinePanel {
  constructor(app) {
    this.app = app;
    this.view = new TimelineView({
      onRange: (range, isDone) => (isDone ? app.set({ range, zoom: [] })
          : app.slide({ range, zoom: [] })),
      onOther: (otherRange) => app.set({ otherRange, otherFile: '', view: 'compare' }),
      onTime: (time, isDone) => (isDone ? app.set({ time }) : app.glide({ time })),
      onLane: (lane, isAdded) => this.pick(lane, isAdded),
      onResize: () => app.render(),
    });
    this.findings = new FindingsPanel(app, () => this.profile === app.profile && this.show());
    this.allocators = new AllocatorsPanel(app);
    this.bar = h('div', { class: 'bar timeline-bar' });
    this.element = h('section', { class: 'panel timeline', 'aria-label': 'timeline' }, this.bar,
        h('div', { class: 'timeline-body' }, this.findings.element, this.view.element,
            app.heatPanel, this.allocators.element));
    this.rest = null;
    this.found = null;
  }

  /** What needs few columns, at once: the page is not empty while the others come. */
  async render(isStale) {
    const { app } = this;
    const { profile, state } = app;
    this.element.hidden = profile.durationUs === 0
        || (profile.isOfAllocations && !app.source.isLive);
    if (this.element.hidden) return;
    const axis = this.view.axisOf(this.timeOf(profile, state.time));
    const basics = await app.once('timeline', [profile, axis.fromUs, axis.toUs, axis.pixels],
        () => basicsOf(profile, axis.grid));
    await this.allocators.prepare(profile);
    this.bar.hidden = profile.isOfAllocations;
    this.view.scroller.hidden = profile.isOfAllocations || state.heat;
    if (isStale()) return;
    // Of a session that runs, the rest of before is there until the new one is.
    if (this.rest !== null && this.profile?.name !== profile.name) this.rest = null;
    Object.assign(this, { axis, basics, profile });
    this.show();
  }

  /** The rest: lines, memory. Findings come when the server has them. */
  async renderRest(isStale) {
    const { app, profile } = this;
    if (profile !== app.profile) return; // an empty one
    const rest = await app.once('timeline rest', [profile], () => restOf(profile));
    if (rest.doubts) this.findings.set(profile, rest.doubts);
    else this.findings.ask(profile);
    const found = await app.once('timeline matches', [profile, app.state.search],
        () => this.matching());
    if (isStale() || (rest === this.rest && found === this.found)) return;
    Object.assign(this, { rest, found });
    this.show();
  }

  /** What a session has written last is judged later than it is shown. */
  follow() {
    if (this.profile && this.rest?.profile === this.app.profile && !this.rest.doubts) {
      this.findings.ask(this.profile);
    }
  }

  /** Of the search, if it was counted for what is shown. */
  get isMatch() {
    const { found, profile, app } = this;
    return found?.profile === profile && found.search === app.state.search ? found.value : null;
  }

  // [fromUs, toUs) within the profile.
  timeOf({ durationUs }, time) {
    if (time === null || time[0] >= durationUs) return [0, durationUs];
    return [time[0], Math.min(time[1], durationUs)];
  }

  async matching() {
    const { app: { matches, state: { search } }, profile } = this;
    const value = matches.processes === null ? null
        : { row: await matchingRows(profile, matches), process: matches.processes };
    return { profile, search, value };
  }

  // -------------------------------------------------------------------- show

  show() {
    const { app, axis, basics, rest, profile } = this;
    const { state } = app;
    const dark = isDark();
    if (this.colours?.isDark !== dark) {
      this.colours = { isDark: dark, ...activityColours(dark), lines: lineStyles(dark) };
    }
    const lanes = this.laneList();
    const { isMatch } = this;
    const pids = new Set(state.pids);
    this.view.show({
      axis,
      wholeUs: profile.durationUs,
      startUs: profile.startUs,
      tracks: this.tracks(),
      lanes,
      laneOf: this.laneMaker(basics, rest?.lines, isMatch?.row, lanes),
      isSelected: (lane) => pids.size > 0 && lane.processes.some((process) =>
          pids.has(profile.pid(process))),
      isMatch: isMatch && ((lane) => lane.processes.some((process) => isMatch.process[process])),
      colours: this.colours,
      missed: basics.sampling?.missed ?? [],
      waits: rest?.profile === profile ? rest.waits : null,
      functionAt: rest?.profile === profile ? rest.functionAt : null,
      range: state.range,
      other: state.view === 'compare' && state.otherFile === '' ? state.otherRange : null,
    });
    this.findings.begin(profile);
    this.findings.show(profile);
    this.showBar(lanes);
    this.allocators.show(seriesColours(this.colours.isDark));
  }

  // The same list for as long as it is the same: the view keeps its pictures.
  laneList() {
    const { app, basics, rest, profile } = this;
    if (basics.only) return NO_LANES;
    const { lanes: order, fold } = app.state;
    const { findings } = this.findings;
    const key = [profile, basics.totals, rest, findings, order, fold];
    if (this.listKey?.every((part, i) => part === key[i])) return this.list;
    this.listKey = key;
    const pids = findings.flatMap((finding) => finding.pids);
    const known = pids.length === 0 ? null : new Map(Array.from(
        { length: profile.processCount }, (_, process) => [profile.pid(process), process]));
    const first = pids.flatMap((pid) => known.get(pid) ?? []);
    this.list = laneList(profile, { order, fold, totals: basics.totals, trends: rest?.trends,
        first, modules: app.names.modules });
    for (const lane of this.list) lane.note = noteOf(lane, basics.totals, rest?.trends);
    return this.list;
  }

  laneMaker(basics, lines, isMatch, lanes) {
    const key = [basics, lines, isMatch, lanes];
    if (this.makerKey?.every((part, i) => part === key[i])) return this.maker;
    this.makerKey = key;
    const made = new Map();
    this.maker = (i) => {
      if (!made.has(i)) made.set(i, basics.lanes.lane(lanes[i].processes, lines, isMatch));
      return made.get(i);
    };
    return this.maker;
  }

  tracks() {
    const { basics, rest, colours, isMatch, allocators: { found, chosen }, app: { state } } = this;
    const isLow = innerHeight < LOW;
    const key = [basics, rest, colours, isMatch, found, chosen, state.tracks, isLow];
    if (this.trackKey?.every((part, i) => part === key[i])) return this.made;
    this.trackKey = key;
    const few = isLow && found === null ? FEW_TRACKS.filter((id) => id !== 'memory') : FEW_TRACKS;
    this.made = this.makeTracks().filter(({ id }) => state.tracks === 'all' || few.includes(id));
    return this.made;
  }

  makeTracks() {
    const { basics, rest, profile, colours, isMatch } = this;
    if (basics.only) return [basics.only];
    const tracks = [
      samplingTrackOf(basics.sampling, rest?.losses ?? []),
      activityTrackOf(basics, rest?.node.schedulers || basics.schedulers.length, colours),
    ];
    if (basics.schedulers.length > 0) {
      tracks.splice(1, 0, schedulersTrackOf(basics.schedulers, profile, colours));
    }
    if (rest?.node.runQueues.some(isKnown)) tracks.push(runQueueTrackOf(rest.node));
    const series = seriesColours(colours.isDark);
    if (rest?.node.memory.length > 0) tracks.push(memoryTrackOf(rest.node, series));
    const { found, chosen } = this.allocators;
    if (found !== null) tracks.push(allocatorTrackOf(found, chosen, series));
    if (isMatch) tracks.push(matchesTrackOf(this.matchShares(basics, isMatch.row)));
    return tracks;
  }

  matchShares(basics, isMatch) {
    if (this.shares?.basics !== basics || this.shares.isMatch !== isMatch) {
      this.shares = { basics, isMatch, values: basics.lanes.matches(isMatch) };
    }
    return this.shares.values;
  }

  pick(lane, isAdded) {
    const { app, profile } = this;
    const pids = lane.processes.map((process) => profile.pid(process));
    const { pids: before } = app.state;
    const isOn = pids.every((pid) => before.includes(pid));
    if (isAdded) {
      app.set({ pids: isOn ? before.filter((pid) => !pids.includes(pid))
          : [...new Set([...before, ...pids])], zoom: [] });
    } else app.set({ pids: isOn && before.length === pids.length ? [] : pids, zoom: [] });
  }

  // --------------------------------------------------------------------- bar

  showBar(lanes) {
    const { app, profile, rest, colours } = this;
    const { state } = app;
    const sampled = lanes.reduce((sum, lane) => sum + lane.processes.length, 0);
    const all = rest?.processes > sampled ? ` of ${exact(rest.processes)}` : '';
    const isZoomable = state.range !== null && `${state.range}` !== `${state.time}`;
    render(html`
      <span class="verdict">${this.findings.verdict()}</span>
      <span class="muted sampled">${exact(sampled)}${all} processes sampled</span>
      <span class="space"></span>
      ${state.heat ? nothing : html`<span class="legend">${LEGEND.map((name) =>
        html`<span class="key" title=${name === 'not sampled' ? BLANK : nothing}><i
          class=${`swatch act-${name.replace(' ', '-')}`}></i>${name}</span>`)}${LANE_LINES.map(
          (name) => html`<span class="key"><i class="swatch line"
            .style=${`background:${colours.lines[name].colour}`}></i>${name}</span>`)}</span>`}
      ${isZoomable ? button('zoom to selection', () => app.set({ time: state.range }))
        : nothing}
      ${state.time === null ? nothing : button('all of the time', () => app.set({ time: null }))}
      ${menu('Timeline', this.options())}`, this.bar);
    this.element.dataset.lanes = String(lanes.length);
    const room = state.heat ? HEATMAP : Math.min(20 * lanes.length,
        LANES + Math.max(0, (innerHeight - PAGE) / 2));
    this.element.style.setProperty('--room', `${Math.round(HEAD + this.view.trackHeight + room
      + (this.allocators.found === null ? 0 : TABLE))}px`);
  }

  options() {
    const { app, rest, allocators } = this;
    const { state } = app;
    return html`
      <label>below the tracks ${select('fold lanes', FOLDS, state.heat ? 'heat' : state.fold,
          (fold) => app.set(fold === 'heat' ? { heat: true } : { heat: false, fold }))}</label>
      ${state.heat ? html`<label>a cell ${select('rows', ROWS, state.rows, (n) =>
            app.set({ rows: Number(n) }))}</label>`
        : html`<label>lanes by ${select('order of lanes', ORDERS, state.lanes, (order) =>
            app.set({ lanes: order }))}</label>`}
      ${toggle('all tracks', state.tracks === 'all', (isAll) =>
          app.set({ tracks: isAll ? 'all' : '' }), 'ticks, schedulers, run queue, memory')}
      ${rest?.node?.hasAllocators ? toggle('allocators', allocators.found !== null, (isOn) =>
          app.set({ allocators: isOn ? 'all' : '' }), 'what they have, and what is used of it')
        : nothing}`;
  }
}

async function basicsOf(profile, grid) {
  if (profile.isOfAllocations) {
    return { only: await (await import('./allocations.js')).allocatedTrack(profile, grid) };
  }
  const lanes = await makeLanes(profile, grid);
  return {
    lanes,
    sums: lanes.sums(),
    peaks: await lanes.peaks(),
    schedulers: await makeSchedulers(profile, grid),
    sampling: await profile.samplingTrack(),
    totals: await profile.activityTotals(),
  };
}

async function restOf(profile) {
  if (profile.isOfAllocations) {
    return { profile, doubts: await (await import('./allocations.js')).doubtsOf(profile) };
  }
  const trends = {};
  for (const name of ['mailbox', 'memory', 'binaries']) trends[name] = await profile.trend(name);
  const figures = await profile.nodeFigures();
  const processes = await figures.of('node_processes');
  return {
    profile,
    trends,
    node: await nodeTracks(profile),
    lines: await lineValues(profile),
    waits: await waitsOf(profile),
    functionAt: await functionsOf(profile),
    losses: await lossTexts(profile),
    processes: processes.reduce((most, n) => (n > most ? n : most), 0),
  };
}

// The top of a process' stack at a time at which it was sampled.
async function functionsOf(profile) {
  await profile.need('node', 'time_us');
  const samples = await profile.byProcess();
  const { columns: { node, time_us: time }, tables: { node_frame: frame } } = profile;
  return (process, us) => {
    const at = placeAt(samples, time, process, us);
    return at < 0 ? '' : worded(profile.frame(frame[node[samples.rows[at]]]).text);
  };
}

async function lossTexts(profile) {
  const { missed, dropped, inconsistent } = await lossesOf(profile);
  return [[missed, 'of the ticks missed'], [dropped, 'of the samples dropped'],
    [inconsistent, 'of the samples inconsistent']]
      .filter(([part]) => part > 0.0005)
      .map(([part, text]) => `in all ${percent(part)} ${text}`);
}

function noteOf({ processes }, totals, trends) {
  let [first, last, n, most] = [Infinity, 0, 0, 0];
  for (const process of processes) {
    first = Math.min(first, totals.firstUs[process]);
    last = Math.max(last, totals.lastUs[process]);
    n += totals.observations[process];
    most = Math.max(most, trends?.mailbox?.most[process] || 0);
  }
  const tenths = (us) => seconds(Math.round(us / 1e5) * 1e5);
  const firstSeen = processes.length === 1 ? trends?.mailbox?.first[processes[0]] : 0;
  return [`sampled from ${tenths(first)} to ${tenths(last)}, ${counted(n, 'sample')}`,
    ...(most > 0 ? [`mailbox at most ${exact(most)}`] : []),
    ...(firstSeen > 0 ? [`mailbox of ${exact(firstSeen)} when first seen`] : [])];
}
