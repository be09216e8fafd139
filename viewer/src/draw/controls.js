// Controls as templates: what is rendered again changes its texts and attributes and stays the
// same element, with its focus and what is open of it. Values become texts, attributes and
// properties, and never HTML.

import { html, nothing } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import { repeat } from 'lit-html/directives/repeat.js';
import { saveFile } from './save.js';

export { html, nothing, render } from 'lit-html';
export { live, repeat };

/** @param options [[id, text, title]] */
export function select(label, options, value, onchange) {
  return html`<select aria-label=${label} @change=${(event) => onchange(event.target.value)}>
    ${repeat(options, ([id]) => id, ([id, text, title]) => html`<option value=${id}
      title=${title || nothing} .selected=${live(id === value)}>${text}</option>`)}
  </select>`;
}

/** @param more {title, label, class: its classes, isOff} */
export function button(text, onclick, more = {}) {
  return html`<button type="button" class=${more.class ?? nothing} title=${more.title ?? nothing}
    aria-label=${more.label ?? nothing} ?disabled=${more.isOff ?? false}
    @click=${onclick}>${text}</button>`;
}

export function toggle(text, isOn, onchange, title) {
  return html`<button type="button" class="toggle" title=${title ?? nothing}
    aria-pressed=${isOn} @click=${() => onchange(!isOn)}>${text}</button>`;
}

/** A colour with what it means. */
export function swatch(text, colour) {
  return html`<span class="key"><i class="swatch"
    .style=${`background:${colour}`}></i>${text}</span>`;
}

/** A list behind a word. A click elsewhere and Escape close it. */
export function menu(text, content, more = '') {
  return html`<details class=${`menu ${more}`} @toggle=${closeOthers} @keydown=${closeByKey}>
    <summary>${text}</summary><div class="menu-box">${content}</div></details>`;
}

function closeOthers({ target }) {
  if (!target.open) return;
  for (const other of document.querySelectorAll('details.menu[open]')) {
    if (other !== target) other.open = false;
  }
}

function closeByKey(event) {
  if (event.key !== 'Escape' || !event.currentTarget.open) return;
  event.currentTarget.open = false;
  event.currentTarget.querySelector('summary').focus();
  event.stopPropagation();
}

addEventListener('pointerdown', ({ target }) => {
  for (const open of document.querySelectorAll('details.menu[open]')) {
    if (!open.contains(target)) open.open = false;
  }
});

/** A button for each kind of file. @param what {what, name, makers: {kind: make}} */
export function saving({ what, name, makers }) {
  return html`<span class="save"><span>${what}</span>${Object.entries(makers).map(([kind, make]) =>
      html`<button type="button" aria-label=${`save ${what} as ${kind}`}
        @click=${() => saveFile(kind, name, make())}>${kind}</button>`)}</span>`;
}
