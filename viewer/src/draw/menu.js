// A menu beside the pointer or a frame: one at a time. Keys: arrows, Home, End, Enter, Escape.

import { h } from './dom.js';

let close = () => {};

/** @param entries [{title, run}]; the focus goes back to `owner` */
export function openMenu(label, entries, x, y, owner) {
  close();
  const items = entries.map(({ title, run }) => h('button', {
    type: 'button', role: 'menuitem', tabindex: '-1',
    onclick: () => {
      close();
      run();
    },
  }, title));
  const menu = h('div', { class: 'context-menu', role: 'menu', 'aria-label': label }, items);
  const outside = new AbortController();
  close = () => {
    close = () => {};
    outside.abort();
    const hadFocus = menu.contains(document.activeElement);
    menu.remove();
    if (hadFocus) owner.focus({ preventScroll: true });
  };
  menu.addEventListener('keydown', (event) => key(event, items));
  menu.addEventListener('focusout', (event) => menu.contains(event.relatedTarget) || close());
  menu.addEventListener('contextmenu', (event) => event.preventDefault());
  const { signal } = outside;
  document.addEventListener('pointerdown', (event) => menu.contains(event.target) || close(),
      { capture: true, signal });
  window.addEventListener('scroll', () => close(), { capture: true, signal });
  window.addEventListener('resize', () => close(), { signal });
  document.body.append(menu);
  menu.style.left = `${Math.max(4, Math.min(x, innerWidth - menu.offsetWidth - 4))}px`;
  menu.style.top = `${Math.max(4, Math.min(y, innerHeight - menu.offsetHeight - 4))}px`;
  items[0]?.focus({ preventScroll: true });
}

function key(event, items) {
  const at = items.indexOf(document.activeElement);
  const moves = {
    ArrowDown: (at + 1) % items.length,
    ArrowUp: (at + items.length - 1) % items.length,
    Home: 0,
    End: items.length - 1,
  };
  if (event.key in moves) items[moves[event.key]].focus();
  else if (event.key === 'Escape' || event.key === 'Tab') close();
  else if (event.key !== 'Enter' && event.key !== ' ') return;
  event.stopPropagation(); // no keys of the page
  if (event.key !== 'Enter' && event.key !== ' ') event.preventDefault();
}
