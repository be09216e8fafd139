// Chains in the flame graphs and the sandwich: the button, and what it says of them.

import { nothing, toggle } from '../draw/controls.js';

export function chainsToggle(app) {
  const { state, profile: { header } } = app;
  return state.chains || header.waits_for
    ? toggle('chains', state.chains, () => app.set(otherChains(state)),
        'what processes wait for, down to what works (c)')
    : nothing;
}

/** What the button and its key change: chains are of what waits. */
export function otherChains({ chains, show }) {
  return { chains: !chains, show: chains ? show : 'waiting', zoom: [] };
}

/** What the picture means, or why it is empty. */
export function chainsText({ header }, isEmpty) {
  if (!header.waits_for) {
    return 'No sample tells what its process waits for: it takes the native engine with the option '
      + 'messages, and a report without merged samples.';
  }
  return isEmpty ? 'No process of the selection waits for something.'
      : 'Chains: samples of processes that wait for something. Behind “waits for X” stands the '
        + 'stack of X at the same tick. A chain ends with what all of it waits for.';
}

const ENDS = {
  not_sampled: 'this process has no sample at this tick',
  cycle: 'the chain comes back to one of its processes',
};

/** Of the frame that ends a chain; or []. */
export function chainEnd(text) {
  return Object.hasOwn(ENDS, text) ? [ENDS[text]] : [];
}
