// Samples added up: a weight for each stack in each group. Every flame graph
// is made of it.

import { makeLevel } from './levels.js';
import { eachRow } from './selection.js';
import { weightsOf } from './measures.js';

const DENSE_MOST = 4e6; // numbers in arrays by node, before maps are used

/**
 * @param levels words of levels.js, outermost first
 * @returns {profile, total, samples, drawers: [{levels: [{text, shown, order}], nodes, weights,
 * samples}]}; weights are sizes: of a delta the change without its sign.
 * Samples that weigh nothing are left out.
 */
export async function groupSamples(selection, measure, levels, context) {
  const { profile } = selection;
  await profile.need('node');
  const weights = await weightsOf(profile, measure);
  const made = [];
  for (const name of levels) made.push(await makeLevel(name, profile, context));
  const drawers = new Drawers(made, profile.tables.node_parent.length);
  const { looks, columns: { node } } = profile;
  const isDelta = measure.kind === 'delta';
  let total = 0;
  let samples = 0;
  eachRow(selection, (row) => {
    const weight = weights === null ? 1 : weights[row];
    if (weight === 0 || (weight < 0 && !isDelta)) return;
    const size = weight < 0 ? -weight : weight;
    const count = looks === null ? 1 : looks[row];
    total += size;
    samples += count;
    drawers.of(row, weight).add(node[row], size, count);
  });
  return { profile, total, samples, drawers: drawers.list.map((drawer) => drawer.finish()) };
}

class Drawers {
  constructor(levels, nodeCount) {
    this.levels = levels;
    this.nodeCount = nodeCount;
    this.list = [];
    this.byKey = new Map();
    this.codes = new Array(levels.length).fill(0);
    this.last = null;
  }

  of(row, weight) {
    const { levels, codes } = this;
    let isSame = this.last !== null;
    for (let i = 0; i < levels.length; i++) {
      const code = levels[i].codeOf(row, weight);
      if (code === codes[i]) continue;
      codes[i] = code;
      isSame = false;
    }
    if (!isSame) this.last = this.find();
    return this.last;
  }

  find() {
    const key = this.codes.length === 1 ? this.codes[0] : this.codes.join();
    let drawer = this.byKey.get(key);
    if (drawer === undefined) {
      const shown = this.levels.map((level, i) => ({
        text: level.textOf(this.codes[i]),
        shown: level.shownOf?.(this.codes[i]),
        order: level.orderOf?.(this.codes[i]),
      }));
      const isDense = (this.list.length + 1) * this.nodeCount < DENSE_MOST;
      drawer = isDense ? new DenseDrawer(shown, this.nodeCount) : new SparseDrawer(shown);
      this.byKey.set(key, drawer);
      this.list.push(drawer);
    }
    return drawer;
  }
}

class DenseDrawer {
  constructor(levels, nodeCount) {
    this.levels = levels;
    this.weights = new Float64Array(nodeCount);
    this.samples = new Uint32Array(nodeCount);
  }

  add(node, size, count) {
    this.weights[node] += size;
    this.samples[node] += count;
  }

  finish() {
    const nodes = [];
    this.samples.forEach((samples, node) => samples > 0 && nodes.push(node));
    return {
      levels: this.levels,
      nodes,
      weights: nodes.map((node) => this.weights[node]),
      samples: nodes.map((node) => this.samples[node]),
    };
  }
}

class SparseDrawer {
  constructor(levels) {
    this.levels = levels;
    this.places = new Map();
    this.nodes = [];
    this.weights = [];
    this.samples = [];
  }

  add(node, size, count) {
    const place = this.places.get(node);
    if (place !== undefined) {
      this.weights[place] += size;
      this.samples[place] += count;
      return;
    }
    this.places.set(node, this.nodes.length);
    this.nodes.push(node);
    this.weights.push(size);
    this.samples.push(count);
  }

  finish() {
    return this;
  }
}
