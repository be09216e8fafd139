// How far behind a running session the page is.

import { sessionOf } from './session.js';

// A file that was not written to for so many flushes has lost its session.
const FLUSHES_MISSED = 3;
const FLUSH_MS = 15000; // unless the file tells another one

/**
 * @param profiles the server's list
 * @param profile that is shown, or null
 * @param nowUs the time of the server's clock
 * @param listedUs the same, when the list was made
 * @param failure why the last look at the server failed, or null
 */
export function badgeText({ profiles, profile, nowUs, listedUs, isFollowed, failure }) {
  if (failure !== null) return `not followed: ${failure.message}`;
  const entry = profiles.find(({ name }) => name === profile?.name);
  if (entry === undefined) return '';
  const { options } = sessionOf(profile);
  const flushMs = Number(Object.fromEntries(options).flush_interval ?? FLUSH_MS);
  const isLate = listedUs / 1000 - 1000 * entry.modified > FLUSHES_MISSED * flushMs;
  // Between two files of a session there may be none that it writes, or one without a sample.
  const isContinued = entry.files > 1
      || profiles.some(({ live, modified }) => live && modified >= entry.modified);
  if (!entry.live && (isLate || !isContinued)) return 'finished';
  if (isLate) return 'unfinished';
  const behind = Math.max(0, nowUs - profile.startUs - profile.durationUs);
  const text = profile.rows === 0 ? 'recording, no sample yet'
      : `recording, ${Math.round(behind / 1e6)} s behind`;
  return isFollowed ? text : `${text}, not followed`;
}
