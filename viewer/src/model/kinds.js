// What kind of thing a frame is: its colour.

export const KINDS = ['application', 'OTP', 'BIF', 'native', 'gc', 'pseudo', 'level'];

// Where the server could not say which modules are OTP's (a page without one).
const OTP_MODULES = new Set(
  ('application application_controller application_master array asn1rt_nif base64 beam_lib ' +
    'binary c calendar code code_server crypto dets dict digraph disk_log edlin epp erl_eval ' +
    'erl_scan erlang error_handler error_logger erts_code_purger erts_internal ets file ' +
    'file_server filelib filename gb_sets gb_trees gen gen_event gen_fsm gen_server ' +
    'gen_statem gen_tcp gen_udp global group heart httpc httpd inet init io io_lib ' +
    'io_lib_format io_lib_pretty lists logger logger_server logger_std_h logger_olp maps ' +
    'mnesia mnesia_tm net_kernel orddict ordsets os prim_file prim_inet proc_lib proplists ' +
    'queue rand random re sets shell slave sofs ssl ssl_gen_statem standard_error string ' +
    'supervisor sys timer tls_connection unicode user user_drv zlib').split(' '),
);

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
  const known = modules?.[module];
  return known ? Boolean(known[1]) : OTP_MODULES.has(module);
}

export function applicationOf(module, modules) {
  return modules?.[module]?.[0] ?? 'unknown';
}
