// What the Firefox Profiler makes of an export, by its own code:
//
//   node firefox_reader.mjs CHECKOUT FILE
//
// CHECKOUT is one of github.com/firefox-devtools/profiler with its packages installed. Prints the
// number of samples of all threads, each as often as its weight.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [checkout, file] = process.argv.slice(2).map((path) => resolve(path));
const { build } = createRequire(join(checkout, 'package.json'))('esbuild');
const work = mkdtempSync(join(tmpdir(), 'flame_prof_firefox_'));

// Packages for other files than ours, which need not be there.
const absent = {
  name: 'absent',
  setup(builder) {
    builder.onResolve({ filter: /^(json-slabs|iongraph-web)/ }, ({ path }) =>
      ({ path, namespace: 'absent' }));
    builder.onLoad({ filter: /./, namespace: 'absent' }, () =>
      ({ contents: 'exports.isJsonSlabsFile = () => false;', loader: 'js' }));
  },
};

try {
  const outfile = join(work, 'reader.cjs');
  await build({
    stdin: {
      contents: `export { unserializeProfileOfArbitraryFormat as read }
        from 'firefox-profiler/profile-logic/process-profile';
        export { getTimeRangeIncludingAllThreads as range }
        from 'firefox-profiler/profile-logic/profile-data';`,
      resolveDir: checkout,
      loader: 'ts',
    },
    absWorkingDir: checkout,
    alias: { 'firefox-profiler': './src', 'firefox-profiler-res': './res' },
    loader: { '.svg': 'text', '.png': 'text', '.wasm': 'binary', '.worker.js': 'text' },
    plugins: [absent],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    logLevel: 'error',
    outfile,
  });
  const { read, range } = createRequire(import.meta.url)(outfile);
  const bytes = readFileSync(file);
  const profile = await read(Uint8Array.from(bytes).buffer, file);
  const { stackTable, frameTable, funcTable, stringArray } = profile.shared;
  let samples = 0;
  for (const thread of profile.threads) {
    const { stack, weight, length } = thread.samples;
    for (let i = 0; i < length; i++) {
      const name = stringArray[funcTable.name[frameTable.func[stackTable.frame[stack[i]]]]];
      if (typeof name !== 'string') throw new Error(`a sample of ${thread.name} has no function`);
      samples += weight === null ? 1 : weight[i];
    }
  }
  if (!(range(profile).end >= 0)) throw new Error('no range of time');
  console.log(samples);
} finally {
  rmSync(work, { recursive: true });
}
