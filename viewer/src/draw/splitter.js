// What is dragged between the timeline and the panel below it. Arrow keys move it, too; a double
// click gives the panel its usual height again.

import { h } from './dom.js';

const STEP = 20; // pixels of a key
const LEAST = 60; // pixels that are left of either

export function splitter(root, upper) {
  const move = (height) => {
    root.dataset.split = '';
    const most = innerHeight - upper.getBoundingClientRect().top - LEAST;
    root.style.setProperty('--split', `${Math.max(LEAST, Math.min(most, height))}px`);
  };
  const onkeydown = (event) => {
    const step = { ArrowUp: -STEP, ArrowDown: STEP }[event.key];
    if (step === undefined) return;
    move(upper.offsetHeight + step);
    event.preventDefault();
  };
  let grip = 0; // where the pointer holds it
  const onpointerdown = ({ target, pointerId, clientY }) => {
    target.setPointerCapture(pointerId);
    grip = clientY - upper.offsetHeight;
  };
  const onpointermove = ({ target, pointerId, clientY }) => target.hasPointerCapture(pointerId)
      && move(clientY - grip);
  return h('div', { class: 'splitter', role: 'separator', tabindex: '0',
    'aria-orientation': 'horizontal', 'aria-label': 'height of the timeline', onkeydown,
    onpointermove, onpointerdown,
    ondblclick: () => delete root.dataset.split });
}
