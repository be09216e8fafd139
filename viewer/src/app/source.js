// Where profiles come from: the server that sent this page, or the page.

import { memoryBytes, remoteBytes, unpackReport } from '../decode/bytes.js';
import { openIndex } from '../decode/index_file.js';

const ASK_AGAIN_MS = 100;
const LINE_END = 10;

/** A report carries its data; a served page does not. */
export function findSource() {
  const data = document.getElementById('profile-data');
  return data === null ? new ServerSource() : new ReportSource(data);
}

class ReportSource {
  constructor(data) {
    this.data = data;
    this.isLive = false;
    this.about = unpackReport(document.getElementById('profile-about').textContent)
      .then((buffer) => JSON.parse(new TextDecoder().decode(buffer)));
  }

  async list() {
    const { name, modules } = await this.about;
    return { profiles: [{ name, bytes: 0, modified: 0, state: 'file' }], modules };
  }

  first() {
    return this.list();
  }

  async findings() {
    return (await this.about).findings;
  }

  async open() {
    this.index ??= unpackReport(this.data.textContent).then((buffer) => {
      this.data.remove(); // its text is of no more use
      return openIndex(memoryBytes(buffer));
    });
    return { index: await this.index, version: '' };
  }
}

class ServerSource {
  constructor() {
    this.isLive = true;
  }

  list() {
    return this.json('api/profiles');
  }

  /**
   * All that a first picture takes, in one request: the list with the modules of the node, and the
   * first and last bytes of the index for open().
   *
   * @param name of the profile; empty: the newest
   */
  async first(name) {
    const query = name === '' ? '' : `?${new URLSearchParams({ name })}`;
    const { answer, buffer, at } = await lineOf(await ask(`api/first${query}`, {}));
    const { begin, name: opened, prepared } = answer;
    this.begun = at === 0 ? null : { name: opened, answer: prepared, known: [
      [0, buffer.slice(at, at + begin)],
      [prepared.size - (buffer.byteLength - at - begin), buffer.slice(at + begin)],
    ] };
    return answer;
  }

  /** What the doctor finds: of flame_prof_doctor_page. */
  findings(name) {
    return this.json(`api/findings?${new URLSearchParams({ name })}`);
  }

  /** @param onProgress(share) while the server reads the file */
  async open(name, onProgress) {
    const { begun } = this;
    this.begun = null;
    if (begun?.name === name) return this.openReady(name, begun.answer, begun.known);
    for (;;) {
      const answer = await this.json(`api/prepare?${new URLSearchParams({ name })}`);
      if (answer.state === 'ready') return this.openReady(name, answer);
      if (answer.state !== 'reading') throw new Error(answer.why);
      onProgress(answer.size > 0 ? answer.read / answer.size : 0);
      await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
    }
  }

  async openReady(name, answer, known) {
    return { index: await openIndex(this.bytes(name, answer, known)), version: answer.version };
  }

  bytes(name, { version, size }, known) {
    const query = new URLSearchParams({ name, version });
    return remoteBytes(size, (offset, wanted) =>
        this.piece(name, `api/index?${query}`, offset, wanted), known);
  }

  /** The pieces of the index behind this version; null: the index is another one now. */
  async append(name, version) {
    const query = new URLSearchParams({ name, version });
    const { answer, buffer, at: begin } = await lineOf(await ask(`api/append?${query}`, {}));
    let at = begin;
    if (answer.state !== 'ready') return null;
    return Promise.all(answer.pieces.map(async (piece) => {
      const whole = at > 0 ? buffer.slice(at, (at += piece.size))
          : await this.bytes(name, piece).read(0, piece.size);
      return { index: await openIndex(memoryBytes(whole)), version: piece.version };
    }));
  }

  async piece(name, address, offset, size) {
    const headers = { Range: `bytes=${offset}-${offset + size - 1}` };
    const response = await ask(address, { headers });
    if (response.status === 410) throw new StaleError(name);
    if (response.status !== 206) throw new Error(`the server answered ${response.status}`);
    const buffer = await reached(response.arrayBuffer());
    if (buffer.byteLength !== size) throw new Error('the server sent less than it was asked for');
    return buffer;
  }

  async json(address) {
    const response = await ask(address, {});
    if (!response.ok) throw new Error(await errorText(response));
    return reached(response.json());
  }
}

/** {answer: the JSON of its first line, buffer, at: where bytes begin behind that, 0: nowhere} */
async function lineOf(response) {
  if (!response.ok) throw new Error(await errorText(response));
  const buffer = await reached(response.arrayBuffer());
  const bytes = new Uint8Array(buffer);
  const at = bytes.indexOf(LINE_END) + 1;
  const line = at > 0 ? bytes.subarray(0, at) : bytes;
  return { answer: JSON.parse(new TextDecoder().decode(line)), buffer, at };
}

export class UnreachableError extends Error {}

function ask(address, options) {
  return reached(fetch(address, { ...options, cache: 'no-store' }));
}

// The connection may be lost while an answer comes, too.
async function reached(answer) {
  try {
    return await answer;
  } catch {
    throw new UnreachableError('the node that serves this page does not answer');
  }
}

export class StaleError extends Error {
  constructor(file) {
    super(`the server has a newer index of ${file}`);
    this.file = file;
  }
}

async function errorText(response) {
  try {
    return (await response.json()).why;
  } catch {
    return `the server answered ${response.status}`;
  }
}
