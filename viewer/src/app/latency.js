// The latency panel: chosen functions are measured in the node for as long as the page reads the
// answer. It is a script of its own, which the page loads when it is asked for.

import { button, html, nothing, render, repeat, select } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { LatencyView } from '../draw/latency_view.js';
import { csv } from '../draw/save.js';
import { TableView } from '../draw/table_view.js';
import { Measured, nanoseconds, partsOf, rowsOf } from '../model/latency.js';
import { counted, exact, percent, short } from '../model/numbers.js';

const OFFERED = 40;
const CARDS = 4;
const PARTS = 8;
const SECONDS = [[10, '10 s'], [60, '1 min'], [600, '10 min']];
const QUANTILES = [[0.5, 'p50'], [0.9, 'p90'], [0.99, 'p99'], [0.999, 'p99.9'],
  [0.9999, 'p99.99']];

export class Board {
  constructor(app) {
    this.app = app;
    this.measured = null;
    this.reading = null; // the request's AbortController, while it runs
    this.failure = '';
    this.seconds = 60;
    this.picked = new Set(); // functions with a heatmap; empty: the first ones
    this.views = new Map();
    this.bar = h('div', {});
    this.notes = h('div', { role: 'status' });
    this.cards = h('div', { class: 'latency-cards' });
    this.table = new TableView('calls', columns(() => this.measured), 'total', (row) =>
        this.pick(row.name));
    this.element = h('section', { class: 'panel latency' }, this.bar, this.notes,
        this.table.element, this.cards);
    addEventListener('pagehide', () => this.end());
  }

  savers() {
    if (this.measured === null) return [];
    return [
      { what: 'the calls', name: 'calls', makers: { CSV: () => this.table.toCsv() } },
      { what: 'the latency heatmap', name: 'latency', makers: { CSV: () => csv([
        ['function', 'from_ms', 'to_ms', 'low_ns', 'end_ns', 'calls'],
        ...this.shown().flatMap(({ name }) => this.views.get(name)?.rows() ?? [])]) } },
    ];
  }

  async render() {
    this.draw();
  }

  // ------------------------------------------------------------- measurement

  async start() {
    const wanted = this.wanted();
    if (wanted.length === 0) return this.fail('no function is chosen');
    this.end();
    const reading = new AbortController();
    this.reading = reading;
    this.measured = new Measured();
    this.picked.clear();
    this.failure = '';
    this.app.toolbar.update(); // there is something to save
    this.draw();
    try {
      const query = new URLSearchParams({ functions: wanted.join('\n'),
          seconds: this.seconds });
      const { signal } = reading;
      const response = await fetch(`api/latency?${query}`, { signal, cache: 'no-store' });
      await this.read(response.body, reading);
      if (this.measured.ended === 'running') this.fail('the node ended it without a reason');
    } catch (error) {
      if (!reading.signal.aborted) this.fail('the node that serves this page does not answer');
    }
    if (this.reading === reading) this.reading = null;
    this.draw();
  }

  async read(body, reading) {
    const lines = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await lines.read();
      rest += value ?? '';
      const whole = rest.split('\n');
      rest = done ? '' : whole.pop();
      if (this.reading !== reading) return;
      for (const line of whole) if (line !== '') this.measured.add(JSON.parse(line));
      this.draw();
      if (done) return;
    }
  }

  /** The connection ends, and the measurement with it. */
  end() {
    if (this.reading === null) return;
    this.reading.abort();
    this.reading = null;
    this.measured.ended = 'asked';
    this.draw();
  }

  fail(text) {
    this.failure = text;
    this.draw();
  }

  wanted() {
    const typed = (this.bar.querySelector('input')?.value ?? '').split(/[\s,]+/).filter(Boolean);
    return [...new Set([...this.app.state.calls, ...typed])];
  }

  add() {
    const calls = this.wanted();
    const input = this.bar.querySelector('input');
    input.value = '';
    this.app.set({ calls });
  }

  pick(name) {
    if (this.picked.size === 0) for (const one of this.shown()) this.picked.add(one.name);
    if (this.picked.has(name)) this.picked.delete(name);
    else this.picked.add(name);
    this.draw();
  }

  shown() {
    const rows = this.measured?.rows ?? [];
    const names = this.picked.size === 0 ? new Set(rows.slice(0, CARDS).map(({ name }) => name))
        : this.picked;
    // In the order of their first calls: a card stays where it is.
    return [...this.measured?.functions.values() ?? []].filter(({ name }) => names.has(name));
  }

  // ------------------------------------------------------------------ pictures

  draw() {
    if (!this.element.isConnected) return;
    render(this.barOf(), this.bar);
    render(this.notesOf(), this.notes);
    const shown = this.shown();
    const rows = rowsOf(shown);
    render(html`${repeat(shown, ({ name }) => name, (one) => this.card(one))}`, this.cards);
    for (const one of shown) {
      this.views.get(one.name).show({ measured: this.measured, one, rows,
        palette: this.app.palette });
    }
    const names = new Set(shown.map(({ name }) => name));
    this.table.element.hidden = this.measured === null;
    this.table.show(this.measured?.rows ?? [], ({ name }) => names.has(name));
  }

  barOf() {
    const { app } = this;
    const isRunning = this.reading !== null;
    return html`<form class="bar" @submit=${(event) => {
      event.preventDefault();
      this.add();
      this.start();
    }}>
      <label>functions of <strong>${app.measuredNode}</strong>
        <input class="latency-input" list="latency-functions" autocomplete="off" spellcheck="false"
          placeholder="module:function/arity" aria-label="function to measure"
          title="several with spaces; without an arity any, module:_ is all of a module"
          @input=${({ target }) => this.offer(target.value)}></label>
      <datalist id="latency-functions">${this.offered?.map((name) => html`<option
        value=${name}></option>`)}</datalist>
      ${app.state.calls.map((name) => button(`${name} ×`, () =>
          app.set({ calls: app.state.calls.filter((one) => one !== name) }),
          { class: 'chip', title: `${name}: leave it out of the next measurement` }))}
      ${select('how long at most', SECONDS, this.seconds, (seconds) => {
        this.seconds = Number(seconds);
      })}
      <button type="submit">${isRunning ? 'measure these' : 'measure'}</button>
      ${isRunning ? button('end', () => this.end()) : nothing}
      <span class="muted">${this.stateText()}</span>
    </form>`;
  }

  offer(text) {
    const typed = text.split(/[\s,]+/).at(-1).toLowerCase();
    const before = text.slice(0, text.length - typed.length);
    this.offered = typed === '' ? [] : this.known().filter((name) =>
      name.toLowerCase().includes(typed)).slice(0, OFFERED).map((name) => before + name);
    this.draw();
  }

  /** Functions of the profile. */
  known() {
    const { profile } = this.app;
    if (!profile) return [];
    if (this.names?.profile !== profile) {
      const frames = Array.from(profile.tables.frame_symbol, (_, id) => profile.frame(id));
      const texts = frames.filter(({ isFunction, text }) => isFunction && !text.includes(' '))
        .map(({ text }) => text);
      this.names = { profile, texts: [...new Set(texts)].sort() };
    }
    return this.names.texts;
  }

  stateText() {
    const { measured } = this;
    if (measured === null) return 'it ends by itself, by its limits, and with this page';
    const time = `${(measured.ms / 1000).toFixed(1)} s`;
    const calls = measured.rows.reduce((sum, one) => sum + one.calls, 0);
    const open = measured.open > 0 ? `, ${exact(measured.open)} not returned` : '';
    const text = `${time}, ${counted(calls, 'call')}${open}`;
    return this.reading !== null ? `measuring: ${text}` : `ended after ${text}`;
  }

  notesOf() {
    const { measured, failure } = this;
    const notes = [failure, measured?.why ?? '', ...(measured?.limits ?? [])].filter(Boolean);
    const isQuiet = measured !== null && measured.ms >= 2000 && measured.functions.size === 0
        && notes.length === 0;
    if (isQuiet) notes.push('no call of these functions has returned yet');
    return notes.map((text) => html`<p class="message latency-note">${text}</p>`);
  }

  card(one) {
    if (!this.views.has(one.name)) {
      this.views.set(one.name, new LatencyView(`latency of ${one.name} over time`));
    }
    const figures = one.calls === 0 ? [] : [...QUANTILES.map(([q, title]) =>
        [title, one.quantile(q)]).filter(([, ns]) => ns !== null), ['max', one.max]];
    return html`<article class="latency-card" aria-label=${one.name}>
      <h3>${one.name}</h3>
      <div class="latency-figures">${counted(one.calls, 'call')}${one.exceptions === 0 ? nothing
          : html`, and ${exact(one.exceptions)} that ended with an exception`}
        ${figures.map(([title, ns]) => html`<span><span class="muted">${title}</span>
          ${nanoseconds(ns)}</span>`)}</div>
      ${this.views.get(one.name).element}
      <div class="latency-parts">${parts('by process group', one.groups, one)}${
          parts('by caller', one.callers, one)}</div>
    </article>`;
  }
}

function parts(title, all, one) {
  const sorted = partsOf(all);
  if (sorted.length === 0) return nothing;
  const numbers = (all) => all.map((text) => html`<td class="number">${text}</td>`);
  const heads = ['calls', 'total', '', ...QUANTILES.map(([, name]) => name), 'max'];
  return html`<div><table><thead><tr><th>${title}</th>${heads.map((head) => html`<th
    class="number">${head}</th>`)}</tr></thead>
    <tbody>${sorted.slice(0, PARTS).map((part) => html`<tr>
    <td>${part.name}</td>${numbers([short(part.calls, ''), nanoseconds(part.total)])}
    <td class="number"><span class="share" .style=${`--share:${
        (100 * part.total) / (one.total || 1)}%`}>${percent(part.total / (one.total || 1))}</span>
    </td>${numbers([...QUANTILES.map(([q]) => part.quantile(q)), part.max].map((ns) =>
      (ns === null ? '' : nanoseconds(ns))))}</tr>`)}</tbody></table>
    ${sorted.length > PARTS ? html`<p class="muted">${sorted.length - PARTS} more</p>` : nothing}
  </div>`;
}

function columns(measured) {
  const time = (id, title, value, help) => ({ id, title, help, isNumber: true, value,
    text: (row) => (row.calls === 0 || value(row) === null ? '' : nanoseconds(value(row))) });
  const total = () => measured().rows.reduce((sum, one) => sum + one.total, 0) || 1;
  return [
    { id: 'function', title: 'function', value: ({ name }) => name, isWord: true },
    { id: 'calls', title: 'calls', isNumber: true, value: ({ calls }) => calls,
      text: ({ calls }) => exact(calls) },
    { id: 'rate', title: 'a second', help: 'calls a second, just now', isNumber: true,
      value: ({ latest }) => Math.round(latest ?? 0), text: ({ latest }) => exact(Math.round(
          latest ?? 0)) },
    { id: 'exceptions', title: 'exceptions', isNumber: true,
      value: ({ exceptions }) => exceptions, text: ({ exceptions }) => exact(exceptions) },
    { ...time('total', 'total', (row) => row.total, 'from call to return'),
      share: (row) => row.total / total() },
    time('own', 'own', (row) => row.own, 'without measured functions that it called'),
    ...QUANTILES.map(([q, title]) => time(title, title, (row) => row.quantile(q))),
    time('max', 'max', (row) => row.max),
  ];
}
