// The first script of a report: the page's style and scripts are compressed in it. The page's
// policy knows them by their hashes.

import { unpackReport } from '../decode/bytes.js';

async function add(id, tag) {
  const packed = document.getElementById(id);
  const element = document.createElement(tag);
  element.textContent = new TextDecoder().decode(await unpackReport(packed.textContent));
  packed.replaceWith(element);
}

add('page-style', 'style')
  .then(() => add('page-script', 'script'))
  .catch((error) => {
    document.getElementById('app').textContent = `this browser does not show the report: ${error}`;
  });
