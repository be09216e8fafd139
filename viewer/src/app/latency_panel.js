// Where the latency panel stands: its script is loaded when it is shown for the first time.

import { h } from '../draw/dom.js';

export class LatencyPanel {
  constructor(app) {
    this.app = app;
    this.board = null;
    this.element = h('div', {});
  }

  savers() {
    return this.board?.savers() ?? [];
  }

  async render() {
    if (this.board === null) {
      const { LatencyBoard } = await import('./latency.js');
      this.board ??= new LatencyBoard(this.app);
      this.element.replaceChildren(this.board.element);
    }
    await this.board.render();
  }
}
