// Where a moment lies between the left and the right end of the time that is shown.

const STEPS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60,
  120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const LABEL_PIXELS = 64;
const LEAST_US = 20000; // more is not to be seen of anything

export class TimeAxis {
  /** @param left, pixels: where it begins and how wide it is */
  constructor([fromUs, toUs], left, pixels) {
    Object.assign(this, { fromUs, toUs, left, pixels });
  }

  get perPixel() {
    return (this.toUs - this.fromUs) / this.pixels;
  }

  x(us) {
    return this.left + (us - this.fromUs) / this.perPixel;
  }

  /** Clamped to what is shown. */
  us(x) {
    const at = Math.max(0, Math.min(this.pixels, x - this.left));
    return this.fromUs + at * this.perPixel;
  }

  /** A column a pixel. */
  get grid() {
    return { fromUs: this.fromUs, cells: this.pixels, cellUs: this.perPixel };
  }

  /** [{us, text}] */
  marks() {
    const least = (this.perPixel * LABEL_PIXELS) / 1e6;
    const step = STEPS_S.find((one) => one >= least) ?? STEPS_S[STEPS_S.length - 1];
    const digits = step < 1 ? Math.ceil(-Math.log10(step)) : 0;
    const marks = [];
    for (let n = Math.ceil(this.fromUs / 1e6 / step); n * step * 1e6 < this.toUs; n++) {
      marks.push({ us: n * step * 1e6, text: timeText(n * step, digits) });
    }
    return marks;
  }

  /** The time shown after it was made `factor` as long around the moment at x. */
  zoomed(x, factor, wholeUs) {
    const at = this.us(x);
    const share = (at - this.fromUs) / (this.toUs - this.fromUs);
    const length = Math.max(LEAST_US, Math.min(wholeUs, (this.toUs - this.fromUs) * factor));
    return within(at - share * length, length, wholeUs);
  }

  moved(pixels, wholeUs) {
    return within(this.fromUs + pixels * this.perPixel, this.toUs - this.fromUs, wholeUs);
  }
}

// null: all of it.
function within(fromUs, length, wholeUs) {
  if (length >= wholeUs) return null;
  const from = Math.round(Math.max(0, Math.min(wholeUs - length, fromUs)));
  return [from, Math.round(from + length)];
}

function timeText(seconds, digits) {
  if (seconds < 120 || digits > 0) return `${seconds.toFixed(digits)} s`;
  const two = (n) => String(n).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  const rest = Math.round(seconds % 60);
  if (minutes < 60) return `${minutes}:${two(rest)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(rest)}`;
}
