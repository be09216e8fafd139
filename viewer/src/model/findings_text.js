// Times and shares as sentences say them.

export const at = (us) => `${(us / 1e6).toFixed(1)} s`;

export const lasting = (us) => (us >= 1e7 ? `${Math.round(us / 1e6)} s`
    : `${(us / 1e6).toFixed(1)} s`);

export const share = (part) => `${Math.round(100 * part)} %`;
