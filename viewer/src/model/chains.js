// Samples of processes that wait, each with the stack of the one it waits for below its own, and so
// on: the chains of c_src/report/chains.h, by the same rule.

import { decodeName } from './symbols.js';
import { WaitedFor } from './waited_for.js';

const LINKS_MOST = 64;
const FRAMES_MOST = 1024;
const PAIR = 2 ** 26; // more than there are nodes, frames, texts or processes

/**
 * The profile with chains for stacks, and only with samples that tell what they wait for; all else
 * is the profile's.
 */
export function chained(profile) {
  return profile.found('chains', makeChained);
}

async function makeChained(profile) {
  const targets = await profile.word('waits_for');
  await profile.need('node', 'process', 'file', 'time_us');
  const view = Object.assign(Object.create(profile), {
    found: (what, find) => profile.found(what, find), // of all samples
    eachRun: (from, to, each) => targets && profile.eachRun(from, to, (first, end) =>
      eachWaiting(targets, first, end, each)),
  });
  const node = Uint32Array.from(profile.columns.node);
  view.columns = Object.assign(Object.create(profile.columns), { node });
  if (targets === null) return view;
  const chains = new Chains(profile, targets, await profile.byProcess());
  view.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) node[row] = chains.of(row);
  });
  return Object.assign(view, chains.made());
}

function eachWaiting(targets, from, end, each) {
  for (let row = from; row < end; row++) {
    const first = row;
    while (row < end && targets[row] > 0) row++;
    if (row > first) each(first, row);
  }
}

class Chains {
  constructor(profile, targets, samples) {
    const { node_parent: parent, node_frame: frame, frame_symbol: symbol } = profile.tables;
    Object.assign(this, { profile, targets, frameCount: symbol.length });
    this.parent = Array.from(parent);
    this.frame = Array.from(frame);
    this.depth = new Uint16Array(parent.length);
    for (let n = 1; n < parent.length; n++) this.depth[n] = this.depth[parent[n]] + 1;
    this.children = new Map(); // of nodes that chains have added
    this.grafts = new Map(); // stacks below such nodes
    this.names = new Map();
    this.texts = []; // of frames that chains have added
    this.walk = new Float64Array(profile.processCount); // the chain that a process is in last
    this.walks = 0;
    this.waitedFor = new WaitedFor(profile, samples);
    [this.notSampled, this.cycle, this.truncated] = ['not_sampled', 'cycle', 'truncated'].map(
        (text) => this.addFrame(text, 'flame_prof'));
  }

  /** The node of a row that waits. */
  of(row) {
    const { depth: depths, targets, walk, profile: { columns } } = this;
    const us = columns.time_us[row];
    let node = columns.node[row];
    let depth = depths[node];
    // Two more frames have to find room: a name, and how the chain ends.
    if (depth + 2 > FRAMES_MOST) {
      return depth < FRAMES_MOST ? this.child(node, this.truncated) : node;
    }
    this.walks++;
    for (let links = 1; targets[row] > 0; links++) {
      walk[columns.process[row]] = this.walks;
      const target = this.waitedFor.find(row, targets[row], us);
      node = this.child(node, this.name(target?.process, targets[row]));
      if (target === null) return node;
      ({ row } = target);
      if (row < 0) return this.child(node, this.notSampled);
      if (walk[target.process] === this.walks) return this.child(node, this.cycle);
      const stack = columns.node[row];
      depth += 1 + depths[stack];
      if (links === LINKS_MOST || depth + 2 > FRAMES_MOST) return this.child(node, this.truncated);
      node = this.graft(node, stack);
    }
    return node;
  }

  child(parent, frame) {
    const key = parent * PAIR + frame;
    const known = this.children.get(key);
    if (known !== undefined) return known;
    this.children.set(key, this.parent.length);
    this.frame.push(frame);
    return this.parent.push(parent) - 1;
  }

  /** The leaf of this stack of the profile below a node. */
  graft(node, stack) {
    const key = node * PAIR + stack;
    let leaf = this.grafts.get(key);
    if (leaf === undefined) {
      leaf = stack === 0 ? node
          : this.child(this.graft(node, this.parent[stack]), this.frame[stack]);
      this.grafts.set(key, leaf);
    }
    return leaf;
  }

  name(process, text) {
    const key = text * PAIR + (process ?? PAIR - 1);
    if (!this.names.has(key)) {
      const { profile } = this;
      const whom = decodeName(profile.text(text));
      const label = process === undefined || !whom.startsWith('<') ? whom : profile.label(process);
      this.names.set(key, this.addFrame(`waits for ${label === whom ? '' : `${label} `}${whom}`,
          'waits_for'));
    }
    return this.names.get(key);
  }

  addFrame(text, file) {
    return this.frameCount + this.texts.push({ text, module: '', line: 0, file,
        isFunction: false }) - 1;
  }

  made() {
    const { profile, frameCount, texts } = this;
    const symbols = new Uint32Array(frameCount + texts.length);
    symbols.set(profile.tables.frame_symbol);
    return {
      tables: { ...profile.tables, frame_symbol: symbols,
        node_parent: Uint32Array.from(this.parent), node_frame: Uint32Array.from(this.frame) },
      frame: (id) => texts[id - frameCount] ?? profile.frame(id),
    };
  }
}
