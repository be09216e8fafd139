// What people ask, and the state of the page that answers it.

export const QUESTIONS = [
  one('cpu', 'CPU', 'what ran, was ready to run or collected garbage', 'samples', 'busy'),
  one('waiting', 'waiting', 'where processes waited', 'samples', 'waiting'),
  one('mailbox', 'mailbox', 'whose messages wait', 'message_queue_len', 'all'),
  one('memory', 'memory', 'which processes have the memory', 'memory', 'all'),
  one('binaries', 'binaries', 'which processes refer to large binaries', 'binaries', 'all'),
  one('collecting', 'collecting', 'which processes spend their time in it', 'collecting',
      'all'),
];

function one(id, title, help, measure, show) {
  return { id, title, help, state: { measure, show, chains: false } };
}

/** The one that is asked, or undefined. */
export function questionOf(measure, show) {
  return QUESTIONS.find(({ state }) => state.measure === measure && state.show === show);
}
