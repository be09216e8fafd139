// Elements. Text is text: nothing here, or anywhere, makes HTML of a string.

/** h('button', {class: 'x', onclick: f, 'aria-pressed': 'true'}, 'text', child) */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'selected') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A canvas of CSS pixels, sharp on dense screens. */
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Whether the page is dark now, by choice or as the system is. */
export function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === 'dark';
}

const tip = h('div', { class: 'tip', role: 'status', hidden: true });

/** Lines of text beside the pointer. */
export function showTip(lines, x, y) {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map((line, i) =>
      h('div', { class: i === 0 ? 'tip-title' : null }, line)));
  tip.hidden = false;
  const { offsetWidth, offsetHeight } = tip;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - offsetWidth - 4))}px`;
  tip.style.top =
      `${y + 18 + offsetHeight > innerHeight ? Math.max(4, y - offsetHeight - 10) : y + 18}px`;
}

export function hideTip() {
  tip.hidden = true;
}
