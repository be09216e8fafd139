// A table that sorts by the head that is clicked, and shows its first rows.

import { h } from './dom.js';
import { csv } from './save.js';

const SHOWN = 200;

export class TableView {
  /**
   * @param columns [{id, title, value(row), text(row), isNumber, isWord}]
   * @param onPick(row, event)
   */
  constructor(label, columns, sortedBy, onPick) {
    this.columns = columns;
    this.sort = { id: sortedBy, isDown: true };
    this.onPick = onPick;
    this.label = label;
    this.rows = [];
    this.element = h('div', { class: 'table-box' });
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  sorted() {
    const { value } = this.columns.find((column) => column.id === this.sort.id);
    const direction = this.sort.isDown ? -1 : 1;
    return [...this.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * direction;
    });
  }

  draw() {
    const rows = this.sorted();
    const head = h('tr', {}, this.columns.map((column) => this.head(column)));
    const body = rows.slice(0, SHOWN).map((row) => this.row(row));
    const more = rows.length - SHOWN;
    this.element.replaceChildren(
      h('table', { 'aria-label': this.label }, h('thead', {}, head), h('tbody', {}, body)),
      more > 0 ? h('p', { class: 'muted' }, `${more} more; the CSV has them all`) : '',
    );
  }

  head(column) {
    const isSorted = column.id === this.sort.id;
    const onclick = () => {
      this.sort = { id: column.id, isDown: isSorted ? !this.sort.isDown
          : Boolean(column.isNumber) };
      this.draw();
    };
    const mark = isSorted ? (this.sort.isDown ? ' ▾' : ' ▴') : '';
    return h(
      'th',
      { class: column.isNumber ? 'number' : null, 'aria-sort': isSorted
          ? (this.sort.isDown ? 'descending' : 'ascending') : null },
      h('button', { type: 'button', onclick }, column.title + mark),
    );
  }

  row(row) {
    const pick = (event) => this.onPick(row, event);
    return h(
      'tr',
      { tabindex: '0', onclick: pick, onkeydown: (event) => event.key === 'Enter' && pick(event) },
      this.columns.map((column) =>
        h('td', { class: column.isNumber ? 'number' : column.isWord ? 'word' : null },
            (column.text ?? ((r) => String(column.value(r))))(row)),
      ),
    );
  }

  toCsv() {
    return csv([this.columns.map((column) => column.id),
        ...this.sorted().map((row) => this.columns.map((column) => column.value(row)))]);
  }
}
