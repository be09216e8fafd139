// What the doctor finds in the profile. The server and reports judge it, in Erlang; the page shows
// what they say, and what a click selects.

import { button, html, menu, nothing, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';
import { worded } from '../model/activity.js';
import { counted, exact } from '../model/numbers.js';
import { sessionOf } from './session.js';
import { viewOf } from './state.js';

const AGAIN_MS = 5000; // of a profile that grows
const JUDGING_MS = 300;
const JUDGING_MOST = 60; // so often; what takes longer is asked for as what grows
const NODE = /^[\w.-]+@[\w.-]+$/;
const EVERYTHING = { measure: 'samples', show: 'busy', levels: null, chains: false, pids: [],
  range: null, zoom: [] };

export class FindingsPanel {
  /** @param onFound() there is something else to show */
  constructor(app, onFound) {
    Object.assign(this, { app, onFound, name: null, answer: null, asking: null });
    this.element = h('div', { class: 'diagnosis' });
  }

  get findings() {
    return this.answer?.findings ?? [];
  }

  /** Those of files of allocations, which tell of themselves. */
  set(profile, findings) {
    this.begin(profile);
    this.answer = { state: 'told', findings };
  }

  begin(profile) {
    if (profile.name === this.name) return;
    Object.assign(this, { name: profile.name, answer: null, asking: null, askedMs: -AGAIN_MS });
  }

  /** Asks for them, if there may be others than those that are shown. */
  async ask(profile) {
    this.begin(profile);
    const rows = profile.rows - profile.ownRows.length;
    const isNew = this.answer === null || this.answer.samples < rows;
    if (!isNew || this.asking !== null || performance.now() - this.askedMs < AGAIN_MS) return;
    const isOld = () => this.asking !== asking; // another profile was chosen meanwhile
    const asking = this.judged(profile.name, isOld);
    this.asking = asking;
    try {
      const answer = await asking;
      if (isOld()) return;
      // Who judged has died, or the index was dropped: it is asked for again.
      this.answer = { samples: answer.state === 'none' ? -1 : rows, ...answer };
      this.onFound();
    } catch {
      // The page says elsewhere that its server does not answer.
    } finally {
      if (!isOld()) Object.assign(this, { asking: null, askedMs: performance.now() });
    }
  }

  async judged(name, isOld) {
    for (let asked = 1; ; asked++) {
      const answer = await this.app.source.findings(name);
      if (answer.state !== 'judging' || isOld()) return answer;
      do {
        await new Promise((done) =>
          setTimeout(done, asked < JUDGING_MOST ? JUDGING_MS : AGAIN_MS));
      } while (document.hidden && !isOld());
      if (isOld()) return answer;
    }
  }

  // -------------------------------------------------------------------- show

  show(profile) {
    const { answer, element, findings } = this;
    element.dataset.state = answer?.state ?? 'judging';
    element.hidden = findings.length === 0;
    const more = answer?.more ?? 0; // which the page does not have
    render(html`
      <div class="findings" role="group" aria-label="findings">
        ${findings.map((finding) => this.card(finding, profile))}</div>
      ${more > 0 ? html`<span class="muted">${exact(more)} more, which the page leaves out:
        <code>flame_prof doctor ${profile.name}</code></span>` : nothing}`, element);
  }

  card(finding, profile) {
    const { kind, severity, title, sentences } = finding;
    const isOn = this.isOn(finding);
    return html`<div class="finding" data-kind=${kind} data-severity=${severity}>
      <button type="button" aria-pressed=${String(isOn)}
        @click=${() => this.app.set(isOn ? EVERYTHING : shownBy(finding))}>
        <strong><em>${severity}: ${worded(kind)}:</em> ${title}</strong>
        <span>${sentences.join(' ')}</span></button>
      ${this.command(finding, profile)}</div>`;
  }

  command({ command }, profile) {
    if (!command) return nothing;
    const { node } = sessionOf(profile);
    const text = NODE.test(node) ? command.replace(/\bNODE\b/, () => node) : command;
    return html`<span class="command"><code title=${text}>${text}</code>
      ${button('copy', copy, { label: `copy ${text}` })}</span>`;
  }

  isOn({ pids, view }) {
    const { state } = this.app;
    return pids.length > 0 && state.measure === viewOf(view).measure
        && pids.length === state.pids.length && pids.every((pid) => state.pids.includes(pid));
  }

  /** A part of a line: is something wrong, and what was looked at. */
  verdict() {
    const { answer } = this;
    if (answer === null) return html`<span class="muted">looking for what is wrong</span>`;
    if (answer.state === 'failed') {
      return html`<span class="muted">This profile is not judged: ${answer.why}.</span>`;
    }
    if (answer.state === 'none') {
      return html`<span class="muted">This profile is not judged.</span>`;
    }
    if (answer.state !== 'judged') return nothing;
    const { findings, judged, unseen, observations, processes } = answer;
    const isOfFile = answer.source !== 'node'; // else the node was looked at, too
    const left = this.app.profile.header.warning_count > 0 ? ' in the samples that are left' : '';
    const part = unseen.length === 0 ? ''
        : `; ${counted(unseen.length, 'kind')} ${isOfFile ? 'need a running node' : 'not judged'}`;
    const text = judged.length === 0 ? 'Nothing of this profile could be judged.'
        : findings.length > 0 ? ''
        : left + part === '' ? 'Nothing is wrong.' : `Nothing was found${left}${part}.`;
    return html`${text === '' ? nothing : html`<span>${text}</span>`}${menu('what was looked at', html`
      <p>${counted(observations, 'sample')} of ${exact(processes)} processes,
        for ${judged.join(', ')}.</p>
      ${unseen.length === 0 ? nothing : html`<p>${isOfFile ? html`Not judged out of files;
        <code>flame_prof doctor NODE</code> looks at a running node for all of it.` : 'Not judged:'}</p>
        <dl>${byReason(unseen).map(([why, kinds]) =>
          html`<dt>${why}:</dt><dd>${kinds.join(', ')}</dd>`)}</dl>`}`)}`;
  }
}

function byReason(unseen) {
  const kinds = new Map();
  for (const { kind, why } of unseen) kinds.set(why, [...(kinds.get(why) ?? []), kind]);
  return [...kinds];
}

function shownBy({ view, pids, range }) {
  return { ...viewOf(view), chains: false, pids, range, zoom: [] };
}

// It is selected as well: where a browser does not let a page copy, the keys do.
function copy({ currentTarget }) {
  const code = currentTarget.parentElement.querySelector('code');
  getSelection().selectAllChildren(code);
  navigator.clipboard?.writeText(code.textContent).catch(() => {});
}
