// What a pointer does on a flame graph, but for its clicks: Ctrl and the wheel zoom, dragging
// moves, a right click opens the menu, as does a long press if the browser knows it.

const DRAG_LEAST = 4; // pixels
const LINE = 16; // pixels

/** @param view {isZoomed, zoomBy(factor, x), moveBy(pixels), openMenu({x, y})} */
export class FlameGestures {
  constructor(canvas, view) {
    Object.assign(this, { canvas, view });
    this.last = null; // where the pointer that is down was last
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
    this.start = event.clientX;
    if (event.button === 0) this.last = event.offsetX;
  }

  move(event) {
    if (this.last === null || !this.view.isZoomed) return;
    if (this.isClick && Math.abs(event.clientX - this.start) <= DRAG_LEAST) return;
    this.isClick = false;
    this.canvas.setPointerCapture(event.pointerId);
    this.view.moveBy(this.last - event.offsetX);
    this.last = event.offsetX;
  }

  up() {
    this.last = null;
  }

  menu(event) {
    this.isClick = false;
    this.up();
    if (this.view.openMenu({ x: event.offsetX, y: event.offsetY })) event.preventDefault();
  }
}
