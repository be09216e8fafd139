// The first place in [low, high) that is not before something; high: all are.

export function lowerBound(low, high, isBefore) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
