// Keys and gestures, each over the part of the page to which it belongs.

import { html, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';

const KEYS = [
  ['timeline, heatmap', '.timeline', [
    ['drag', 'select a range'],
    ['Alt drag', 'compare with that range'],
    ['Ctrl wheel, + −', 'magnify'],
    ['Shift wheel', 'move'],
    ['click a lane', 'show only its process; Shift adds it'],
    ['↑ ↓ Enter', 'choose a lane, show its process'],
    ['← →', 'select time, Shift extends'],
    ['click a cell, click another', 'select from the first to the last'],
  ]],
  ['flame graph', '#panel', [
    ['click, Enter', 'zoom in; a hatched block opens'],
    ['Escape', 'zoom out by a frame'],
    ['← → ↑ ↓ Home', 'move from frame to frame'],
    ['Ctrl wheel, w s', 'magnify'],
    ['drag, a d', 'move'],
    ['right click, Menu', 'what can be done with a frame'],
    ['click a row', 'show only this process; Shift or Ctrl adds it'],
  ]],
  ['anywhere', '#panel', [
    ['/', 'search, Enter: the next match'],
    ['1 to 6', 'the panels'],
    ['i', 'the root at the top or at the bottom'],
    ['v', 'callers: the leaf at the root'],
    ['c', 'chains: what processes wait for, down to what works'],
    ['Escape', 'zoom out; then select the whole profile'],
  ]],
];

let dialog;

export function showHelp() {
  if (dialog === undefined) {
    dialog = h('dialog', { class: 'keys', 'aria-label': 'keys',
        onclick: () => dialog.close(), onclose: () => render(html``, dialog) });
    document.body.append(dialog);
  }
  if (dialog.open) return;
  const places = new Map();
  for (const [title, selector, keys] of KEYS) {
    places.set(selector, [...(places.get(selector) ?? []), { title, keys }]);
  }
  render(html`${[...places].map(([selector, parts]) => {
    const { top, left, width } = document.querySelector(selector).getBoundingClientRect();
    return html`<div class="over" .style=${`top:${top + 8}px;left:${left + 8}px;width:${
        width - 16}px`}>${parts.map(({ title, keys }) => html`<section><h2>${title}</h2>
      <dl>${keys.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
      </section>`)}</div>`;
  })}
    <button type="button" autofocus>close</button>`, dialog);
  dialog.showModal();
}
