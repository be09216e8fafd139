// Two selections in one tree: side 0 is what is looked at, side 1 what it is
// compared with.

/**
 * How a node changed, in units of side 0: `normalised` takes both sides as equally
 * large, which compares shares.
 */
export function changes(tree, isNormalised) {
  const [now, before] = tree.total;
  const scale = isNormalised && before[0] > 0 ? now[0] / before[0] : 1;
  return Float64Array.from(now, (total, node) => total - before[node] * scale);
}

/**
 * Of each change, the cube root of its part of the whole, -1 to 1, for its colour: a sliver is
 * pale, even if all of it is new.
 */
export function shares(tree, changed) {
  const whole = Math.max(tree.total[0][0], tree.total[0][0] - changed[0]);
  return changed.map((change) => (whole > 0 ? Math.cbrt(change / whole) : 0));
}

/**
 * Widths of side 0 without everything that side 1 has too: a node is kept that
 * side 1 does not have, and what leads to it.
 */
export function elided(tree) {
  const [now] = tree.self;
  const before = tree.total[1];
  const widths = Float64Array.from(now, (self, node) => (before[node] === 0 ? self : 0));
  for (let node = widths.length - 1; node > 0; node--) widths[tree.parent[node]] += widths[node];
  return widths;
}
