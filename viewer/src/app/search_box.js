// One search for processes, modules and functions, and what it found.

import { button, html, live, nothing, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { full, percent } from '../model/numbers.js';
import { countMatches } from '../model/search.js';
import { weightsOf } from '../model/measures.js';

const CHIPS = 5;

export class SearchBox {
  constructor(app) {
    this.app = app;
    this.element = h('div', { class: 'search', role: 'search' });
    this.result = h('div', { class: 'bar result' });
    this.found = null; // of countMatches(), of the current search
  }

  update() {
    const { app, found } = this;
    const { state, matches } = app;
    const error = matches?.text === state.search ? matches.error : '';
    render(html`
      <input id="search" type="search" placeholder="process, function" autocomplete="off"
        aria-label="search" title="a part of a name, or /a regular expression/ (press /)"
        aria-invalid=${error === '' ? 'false' : 'true'} .value=${live(state.search)}
        @input=${(event) => app.type({ search: event.target.value })}
        @keydown=${(event) => this.key(event)}>`, this.element);
    const isFound = state.search !== '' && found !== null;
    render(html`<output class="found">${error || (isFound ? this.foundText() : '')}</output>
      ${isFound ? this.chips() : nothing}`, this.result);
    this.result.hidden = state.search === '';
  }

  key(event) {
    const { app } = this;
    if (event.key === 'Enter') app.panel.view?.next?.(event.shiftKey ? -1 : 1);
  }

  foundText() {
    const { app, found } = this;
    const { unit } = app.measure;
    const many = (n, one, several) => `${n} ${n === 1 ? one : several}`;
    return `${many(found.processes.length, 'process', 'processes')}, ` +
        `${many(found.functions, 'function', 'functions')}, ${percent(found.share)} of what is ` +
        `shown${unit === 'samples' ? `: ${full(found.weight, unit)}` : ''}`;
  }

  chips() {
    const { app, found } = this;
    const { profile } = app;
    return found.processes.slice(0, CHIPS).filter((p) => p < profile.processCount).map((p) =>
        button(profile.label(p), () => app.set({ pids: [profile.pid(p)], zoom: [] }),
            { class: 'chip', title: `show only ${profile.pid(p)}` }));
  }

  /** Counts what app.matches matches in the selection. */
  async render(isStale) {
    const { app } = this;
    const { profile, measure, matches, state } = app;
    const found = matches.processes === null ? null : await app.once('search', [profile,
        measure.id, state.range, state.pids, state.trace, state.show, state.chains,
        matches.text], async () =>
      countMatches(await app.select(profile, state.range),
          await weightsOf(profile, measure), matches));
    if (isStale()) return;
    this.found = found;
    this.update();
  }
}
