// Where a panel stands whose script is loaded when it is shown for the first time.

import { h } from '../draw/dom.js';

const BOARDS = {
  latency: () => import('./latency.js'),
  allocations: () => import('./allocations.js'),
};

export class LazyPanel {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.board = null;
    this.element = h('div');
  }

  savers() {
    return this.board?.savers() ?? [];
  }

  async render(isStale) {
    if (this.board === null) {
      const { Board } = await BOARDS[this.name]();
      this.board ??= new Board(this.app);
      this.element.replaceChildren(this.board.element);
    }
    await this.board.render(isStale);
  }
}
