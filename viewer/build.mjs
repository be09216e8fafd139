// Build the viewer into priv/www: index.html, viewer.js and viewer.css for the
// server, report.html for reports, into which flame_prof:report/2 puts both, compressed.
//
//   node build.mjs           build
//   node build.mjs --check   is what is committed what the sources give?

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const www = join(here, '..', 'priv', 'www');

// Templates keep the indentation of their lines, which means nothing in HTML. The scales and
// colour spaces of d3 that nobody uses stay in the bundle, unless their calls are known to be pure;
// so do the names of CSS' colours: the viewer has numbers only.
const smaller = {
  name: 'smaller',
  setup({ onLoad, onResolve }) {
    const changed = (filter, change) => onLoad({ filter }, ({ path }) =>
        ({ contents: change(readFileSync(path, 'utf8')) }));
    // Scripts of their own, beside the one that asks for them.
    onResolve({ filter: /^\.\/(latency|allocations)\.js$/ }, ({ path, kind }) =>
        (kind === 'dynamic-import' ? { path, external: true } : undefined));
    changed(/viewer.src.*\.js$/, (text) => text.replace(/\n +/g, '\n'));
    changed(/d3-color\.mjs$/, (text) => text.replace(
        /^(define)(\((?:Lab|Hcl|Cubehelix),.*)(extend\()/gm,
        '/* @__PURE__ */ $1$2/* @__PURE__ */ $3').replace(/^(var named = )\{[^}]*\}/m, '$1{}'));
    changed(/d3-interpolate\.mjs$/, (text) =>
        text.replace(/^(var [\w$]+ = )(?=\w+\(|\(function)/gm, '$1/* @__PURE__ */ '));
  },
};

async function bundle(entry, format = entry.endsWith('.js') ? 'iife' : undefined) {
  const { outputFiles } = await build({
    entryPoints: [join(here, 'src', entry)],
    absWorkingDir: here,
    bundle: true,
    minify: true,
    write: false,
    charset: 'utf8',
    format,
    target: ['chrome109', 'firefox115', 'safari16.4'],
    legalComments: 'none',
    plugins: [smaller],
  });
  return outputFiles[0].text;
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

// The report's policy names its scripts and its style by what they are. The first script is here
// and adds the others, which the report has compressed.
function reportTemplate(html, js, css, boot) {
  if (/<\/script|<!--/i.test(boot)) throw new Error('boot.js: it would end its element');
  const policy =
    `default-src 'none'; script-src ${hash(boot)} ${hash(js)}; style-src ${hash(css)}; ` +
    `img-src data: blob:; base-uri 'none'; form-action 'none'`;
  const inlined = html
    .replace('<link rel="stylesheet" href="viewer.css">\n', '')
    .replace('<script src="viewer.js" defer></script>\n', '')
    .replace('<meta charset="utf-8">', () => `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${policy}">`)
    .replace('</body>', () => `@DATA@\n<script>${boot}</script>\n</body>`);
  if (inlined.split('@DATA@').length !== 2) throw new Error('report.html: no place for the data');
  return inlined;
}

const licence = `/* flame_prof, Apache License 2.0; with d3-scale-chromatic, d3-interpolate and
d3-color, ISC License, Mike Bostock, and lit-html:

${readFileSync(join(here, 'node_modules', 'lit-html', 'LICENSE'), 'utf8').trim()}
*/
`;
const js = licence + (await bundle('app/main.js'));
const latency = licence + (await bundle('app/latency.js', 'esm'));
const allocations = licence + (await bundle('app/allocations.js', 'esm'));
const css = await bundle('style.css');
const boot = (await bundle('app/boot.js')).trim();
const html = readFileSync(join(here, 'src', 'index.html'), 'utf8');
const files = {
  'index.html': html, 'viewer.js': js, 'viewer.css': css,
  'latency.js': latency, 'allocations.js': allocations,
  'report.html': reportTemplate(html, js, css, boot),
};

mkdirSync(www, { recursive: true });
let wrong = 0;
for (const [name, text] of Object.entries(files)) {
  const path = join(www, name);
  if (!process.argv.includes('--check')) {
    writeFileSync(path, text);
    console.log(`  ${name} ${Buffer.byteLength(text)} bytes`);
  } else if (readFileSync(path, 'utf8') !== text) {
    console.error(`  priv/www/${name} is not what viewer/src gives: make viewer`);
    wrong = 1;
  }
}
process.exit(wrong);
