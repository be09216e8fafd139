// What a process does at a time, by its status: four kinds that pictures tell apart, and a rest.

export const ACTIVITIES = ['running', 'ready', 'collecting', 'waiting', 'other'];

const OF_STATUS = {
  '': 'running', // perf samples what is on a CPU
  running: 'running',
  runnable: 'ready',
  garbage_collecting: 'collecting',
  waiting: 'waiting',
};

const WORDS = { runnable: 'ready', garbage_collecting: 'collecting', gc: 'collecting',
  '[gc]': 'collecting', level: 'group' };

/** What files call a thing, in the one word that the page has for it. */
export function worded(text) {
  return Object.hasOwn(WORDS, text) ? WORDS[text] : text;
}

/** By number of the status, the number of its activity. */
export function activitiesOf(statuses) {
  return Uint8Array.from(statuses, (status) => ACTIVITIES.indexOf(OF_STATUS[status] ?? 'other'));
}

/** On a CPU or ready for one: what the page opens on. */
export function isBusy(status) {
  return status === 'running' || status === 'runnable' || status === 'garbage_collecting';
}
