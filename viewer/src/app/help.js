// The keys, and what is not obvious in the pictures, over the page.

import { html, render } from '../draw/controls.js';
import { h } from '../draw/dom.js';

const KEYS = [
  ['anywhere', [
    ['/', 'search'],
    ['Enter', 'in the search: the next match'],
    ['1 to 5', 'flame graph, compare, processes, sandwich, latency'],
    ['i', 'the root at the top or at the bottom'],
    ['v', 'callers: the leaf at the root'],
    ['c', 'chains: what processes wait for, down to what works'],
    ['Escape', 'zoom out; then select the whole profile'],
    ['?', 'these keys'],
  ]],
  ['time', [
    ['drag', 'select a range'],
    ['Alt drag', 'compare with that range'],
    ['double click', 'show only the selection'],
    ['Ctrl wheel, + −', 'magnify'],
    ['Shift wheel', 'move'],
    ['↑ ↓', 'in the lanes: choose a process, Enter shows only it'],
    ['← →', 'select, with Shift extend'],
    ['Shift click', 'in the heatmap: extend the range'],
    ['Escape', 'select the whole profile'],
  ]],
  ['flame graph', [
    ['← → ↑ ↓', 'move from frame to frame'],
    ['Enter, click', 'zoom in'],
    ['Escape', 'zoom out by a frame'],
    ['Home', 'the root'],
    ['Ctrl wheel, w s', 'magnify'],
    ['drag, a d', 'move'],
    ['right click, Menu', 'what can be done with a frame'],
  ]],
  ['tables', [
    ['Enter, click', 'show only this'],
    ['Shift or Ctrl click', 'add a process'],
  ]],
  ['timeline', [
    ['blank lane', 'not sampled'],
    ['blank scheduler', 'idle, or a process that was not sampled'],
    ['on CPU and ready', 'of the sampled processes'],
    ['dashed ticks', 'equal samples are merged: the header says how coarse'],
  ]],
];

let dialog;

export function showHelp() {
  if (dialog === undefined) {
    dialog = h('dialog', { class: 'keys', 'aria-label': 'keys',
        onclick: ({ target }) => target === dialog && dialog.close(),
        onclose: () => render(html``, dialog) });
    document.body.append(dialog);
  }
  if (dialog.open) return;
  render(html`<div>
    ${KEYS.map(([title, keys]) => html`<h2>${title}</h2><dl>${keys.map(([key, what]) =>
        html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>`)}
    <button type="button" autofocus @click=${() => dialog.close()}>close</button></div>`, dialog);
  dialog.showModal();
}
