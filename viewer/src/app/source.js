// Where profiles come from: the server that sent this page, or the page.

import { memoryBytes, remoteBytes, unpackReport } from '../decode/bytes.js';
import { openIndex } from '../decode/index_file.js';

const ASK_AGAIN_MS = 300;

/** A report carries its data; a served page does not. */
export function findSource() {
  const data = document.getElementById('profile-data');
  return data === null ? new ServerSource() : new ReportSource(data);
}

class ReportSource {
  constructor(data) {
    this.data = data;
    this.isLive = false;
    const about = JSON.parse(document.getElementById('profile-about').textContent);
    this.about = about;
  }

  async list() {
    return { profiles: [{ name: this.about.name, bytes: 0, modified: 0, state: 'file' }] };
  }

  async modules() {
    return this.about.modules;
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

  modules() {
    return this.json('api/modules');
  }

  /** @param onProgress(share) while the server reads the file */
  async open(name, onProgress) {
    for (;;) {
      const answer = await this.json(`api/prepare?${new URLSearchParams({ name })}`);
      if (answer.state === 'ready') return this.openReady(name, answer);
      if (answer.state !== 'reading') throw new Error(answer.why);
      onProgress(answer.size > 0 ? answer.read / answer.size : 0);
      await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
    }
  }

  async openReady(name, { version, size }) {
    const query = new URLSearchParams({ name, version });
    const bytes = remoteBytes(size, (offset, wanted) =>
        this.piece(`api/index?${query}`, offset, wanted));
    return { index: await openIndex(bytes), version };
  }

  async piece(address, offset, size) {
    const headers = { Range: `bytes=${offset}-${offset + size - 1}` };
    const response = await ask(address, { headers });
    if (response.status === 410) throw new StaleError('the server has a newer index');
    if (response.status !== 206) throw new Error(`the server answered ${response.status}`);
    const buffer = await response.arrayBuffer();
    if (buffer.byteLength !== size) throw new Error('the server sent less than it was asked for');
    return buffer;
  }

  async json(address) {
    const response = await ask(address, {});
    if (!response.ok) throw new Error(await errorText(response));
    return response.json();
  }
}

export class UnreachableError extends Error {}

async function ask(address, options) {
  try {
    return await fetch(address, { ...options, cache: 'no-store' });
  } catch {
    throw new UnreachableError('the node that serves this page does not answer');
  }
}

export class StaleError extends Error {}

async function errorText(response) {
  try {
    return (await response.json()).why;
  } catch {
    return `the server answered ${response.status}`;
  }
}
