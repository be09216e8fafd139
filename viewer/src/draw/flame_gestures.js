// What a pointer does on a flame graph, but for its clicks: Ctrl and the wheel, and two fingers,
// zoom; dragging moves; a right click and a long press open the menu. The wheel alone scrolls the
// page.

const DRAG_LEAST = 4; // pixels
const LONG_MS = 500;
const LINE = 16; // pixels

/** @param view {isZoomed, zoomBy(factor, x), moveBy(pixels), openMenu({x, y})} */
export class FlameGestures {
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    this.pointers = new Map(); // those that are down: id -> x
    this.isClick = true; // no drag and no menu since the pointer went down
    const on = (type, listen, options) => canvas.addEventListener(type, listen.bind(this), options);
    on('wheel', this.wheel, { passive: false });
    on('pointerdown', this.down);
    on('pointermove', this.move);
    on('contextmenu', this.menu);
    for (const type of ['pointerup', 'pointercancel', 'lostpointercapture']) on(type, this.up);
  }

  wheel(event) {
    const unit = event.deltaMode === 1 ? LINE : 1;
    if (event.ctrlKey || event.metaKey) {
      this.view.zoomBy(Math.exp(event.deltaY * unit * 0.005), event.offsetX);
    } else if (this.view.isZoomed && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.view.moveBy(event.deltaX * unit);
    } else {
      return;
    }
    event.preventDefault();
  }

  down(event) {
    this.isClick = true;
    this.start = { x: event.clientX, y: event.clientY };
    if (event.pointerType === 'mouse' && event.button !== 0) return;
    this.pointers.set(event.pointerId, event.offsetX);
    clearTimeout(this.timer);
    if (event.pointerType === 'mouse' || this.pointers.size > 1) return;
    const place = { x: event.offsetX, y: event.offsetY };
    this.timer = setTimeout(() => this.open(place), LONG_MS);
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    const way = Math.hypot(event.clientX - this.start.x, event.clientY - this.start.y);
    if (way > DRAG_LEAST) clearTimeout(this.timer);
    if (this.pointers.size === 2) this.pinch(event, before);
    else if (this.view.isZoomed && (way > DRAG_LEAST || !this.isClick)) this.drag(event, before);
    else return;
    this.isClick = false;
    this.pointers.set(event.pointerId, event.offsetX);
  }

  drag(event, before) {
    this.canvas.setPointerCapture(event.pointerId);
    this.view.moveBy(before - event.offsetX);
  }

  pinch(event, before) {
    const [, other] = [...this.pointers].find(([id]) => id !== event.pointerId);
    const [was, is] = [Math.abs(before - other), Math.abs(event.offsetX - other)];
    if (was > DRAG_LEAST && is > DRAG_LEAST) this.view.zoomBy(was / is, other);
  }

  up(event) {
    clearTimeout(this.timer);
    this.pointers.delete(event.pointerId);
  }

  menu(event) {
    if (this.open({ x: event.offsetX, y: event.offsetY })) event.preventDefault();
  }

  open(place) {
    this.isClick = false;
    this.pointers.clear();
    return this.view.openMenu(place);
  }
}
