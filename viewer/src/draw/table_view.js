// A table that sorts by the head that is clicked, and shows its first rows.

import { html, nothing, render } from './controls.js';
import { h } from './dom.js';
import { csv } from './save.js';

const SHOWN = 200;

export class TableView {
  /**
   * @param columns [{id, title, help, value(row): for the CSV, text(row), order(row): for sorting,
   *   share(row): from 0 to 1, the length of a bar; cell(row): a template; isNumber, isWord: it is
   *   not broken, isClipped: its end is left out where it is long, isHidden: it
   *   is in the CSV only}]; all but id, title and value
   *   may be left out
   * @param onPick(row, event)
   */
  constructor(label, columns, sortedBy, onPick) {
    this.columns = columns;
    this.seen = columns.filter(({ isHidden }) => !isHidden);
    this.sort = { id: sortedBy, isDown: true };
    this.onPick = onPick;
    this.label = label;
    this.rows = this.found = [];
    this.picked = null; // is a row the picked one?
    this.element = h('div', { class: 'table-box' });
  }

  /**
   * @param picked(row) => is it the one that is shown
   * @param search of search.js: the rows with what it finds, if there are some
   */
  show(rows, picked = () => false, search = null) {
    const texts = this.columns.filter(({ isNumber }) => !isNumber);
    const found = search?.processes ? rows.filter((row) =>
        texts.some(({ value }) => search.test(value(row)))) : [];
    this.rows = rows;
    this.found = found.length > 0 ? found : rows;
    this.picked = picked;
    this.draw();
  }

  sorted(rows) {
    const column = this.columns.find(({ id }) => id === this.sort.id);
    const order = column.order ?? column.value;
    const direction = this.sort.isDown ? -1 : 1;
    return rows.map((row) => [order(row), row]).sort(([x], [y]) =>
        (x < y ? -1 : x > y ? 1 : 0) * direction).map(([, row]) => row);
  }

  draw() {
    const rows = this.sorted(this.found);
    const more = rows.length - SHOWN;
    render(html`
      <table aria-label=${this.label}>
        <thead><tr>${this.seen.map((column) => this.head(column))}</tr></thead>
        <tbody>${rows.slice(0, SHOWN).map((row) => this.row(row))}</tbody>
      </table>
      ${more > 0 ? html`<p class="muted">${more} more; the CSV has them all</p>` : nothing}`,
    this.element);
  }

  head({ id, title, help, isNumber }) {
    const isSorted = id === this.sort.id;
    const mark = isSorted ? (this.sort.isDown ? ' ▾' : ' ▴') : '';
    const order = this.sort.isDown ? 'descending' : 'ascending';
    return html`<th class=${isNumber ? 'number' : nothing} aria-sort=${isSorted ? order : nothing}>
      <button type="button" title=${help ?? nothing} @click=${() => {
        this.sort = { id, isDown: isSorted ? !this.sort.isDown : Boolean(isNumber) };
        this.draw();
      }}>${title}${mark}</button></th>`;
  }

  row(row) {
    const pick = (event) => this.onPick(row, event);
    return html`<tr tabindex="0" aria-current=${this.picked(row) ? 'true' : nothing} @click=${pick}
      @keydown=${(event) => event.key === 'Enter' && pick(event)}
      >${this.seen.map((column) => this.cell(column, row))}</tr>`;
  }

  cell({ value, text, share, cell, isNumber, isWord, isClipped }, row) {
    const kind = isNumber ? 'number' : isWord ? 'word' : nothing;
    if (cell !== undefined) return html`<td class=${kind}>${cell(row)}</td>`;
    const shown = text === undefined ? String(value(row)) : text(row);
    if (isClipped) return html`<td><span class="clipped" title=${shown}>${shown}</span></td>`;
    if (share === undefined) return html`<td class=${kind}>${shown}</td>`;
    return html`<td class=${kind}><span class="share"
      .style=${`--share:${(100 * share(row)).toFixed(1)}%`}>${shown}</span></td>`;
  }

  toCsv() {
    return csv([this.columns.map((column) => column.id),
        ...this.sorted(this.rows).map((row) => this.columns.map((column) => column.value(row)))]);
  }
}
