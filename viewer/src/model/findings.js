// What is odd in a profile, in sentences that select what they say. A healthy node has none.

import { cpuFindings, gcFindings, spawnFindings, stuckFindings } from './findings_cpu.js';
import { lossFindings } from './findings_losses.js';
import { mailboxFindings } from './findings_mailbox.js';
import { memoryFindings } from './findings_memory.js';
import { serverFindings } from './findings_server.js';

const MOST = 6;
const MOST_OF_KIND = 2;

// What ends a node first is the most severe; then what makes others wait; losses at last.
const KINDS = ['losses', 'spawn', 'gc', 'scheduler', 'server', 'memory', 'mailbox'];

// A heap that is full of messages, and a CPU that a known problem keeps, are not told again.
const EXPLAINED_BY = { memory: ['mailbox'], scheduler: ['server', 'gc'] };

const FINDERS = [mailboxFindings, memoryFindings, stuckFindings, lossFindings];
// Shares of a process' time need its samples of all statuses.
const OF_ALL_STATUSES = [serverFindings, gcFindings, cpuFindings, spawnFindings];

/**
 * @param modules module -> [application, isOtp], or null
 * @returns [{kind, severity, title, text, pids, processes, range, view, function}], the most severe
 *   first: the process that it is about is the first of `processes`, `range` is null for the whole
 *   profile, `view` is what shows it in the page's state, `function` explains it
 */
export async function findFindings(profile, { modules = null } = {}) {
  if (profile.rows === 0) return [];
  const finders = hasAllStatuses(profile) ? [...FINDERS, ...OF_ALL_STATUSES] : FINDERS;
  const found = (await Promise.all(finders.map((find) => find(profile, { modules })))).flat()
      .filter((one) => profile.isOwn[one.processes[0]] !== 1);
  return strongest(found.filter((one) => !isExplained(one, found)))
      .map(({ size, ...one }) => ({ ...one, severity: severityOf(one.kind, size),
        pids: one.processes.map((process) => profile.pid(process)) }));
}

function hasAllStatuses(profile) {
  const { process_words: words } = profile.tables;
  return profile.metric('message_queue_len') >= 0 && profile.statuses.includes('waiting')
      && !profile.isOwn.some((is, p) => is && /\bmode=schedulers\b/.test(profile.text(words[p])));
}

function isExplained({ kind, processes }, found) {
  return (EXPLAINED_BY[kind] ?? []).some((other) => found.some((one) =>
      one.kind === other && one.processes[0] === processes[0]));
}

function strongest(found) {
  const sorted = [...found].sort((a, b) => severityOf(b.kind, b.size) - severityOf(a.kind, a.size));
  const count = {};
  return sorted.filter(({ kind }) => (count[kind] = (count[kind] ?? 0) + 1) <= MOST_OF_KIND)
      .slice(0, MOST);
}

// By kind, and within a kind by size.
function severityOf(kind, size) {
  return KINDS.indexOf(kind) + size / (1 + size);
}
