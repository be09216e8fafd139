// What kind of thing a frame is: its colour.

export const KINDS = ['application', 'OTP', 'BIF', 'native', 'gc', 'pseudo', 'level'];

/**
 * @param frame of symbols.js
 * @param modules module -> [application, isOtp], or null
 */
export function kindOf(frame, modules) {
  if (!frame.isFunction) {
    if (frame.text === '[gc]') return 'gc';
    if (frame.file === 'waits_for') return 'level';
    return frame.file === 'flame_prof' || frame.file === 'status' ? 'pseudo' : 'native';
  }
  if (frame.file === 'bif') return 'BIF';
  if (frame.file === 'nif') return 'native';
  return isOtp(frame.module, modules) ? 'OTP' : 'application';
}

export function isOtp(module, modules) {
  return Boolean(modules?.[module]?.[1]);
}

export function applicationOf(module, modules) {
  return modules?.[module]?.[0] ?? 'unknown';
}
