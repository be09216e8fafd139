// Ask `flame_prof mcp` with the protocol's own client: node client.mjs COMMAND NODE COOKIE FILE.
// The node has the processes of tools/test_mcp.sh; FILE is any profile. The last line is
// "PASSED FAILED". What a tool answers is compared with what the command prints.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, node, cookie, file] = process.argv.slice(2);
const access = ["--cookie", cookie];
const told = [];
let passed = 0;
let failed = 0;

async function test(name, run) {
  try {
    await run();
    passed += 1;
    console.log(`    ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`    FAIL  mcp: ${name}: ${String(error.stack).split("\n").slice(0, 6).join(" ")}`);
  }
}

async function connected(args) {
  const transport = new StdioClientTransport({ command, args: ["mcp", ...args, ...access] });
  const client = new Client({ name: "test", version: "1" });
  client.onerror = (error) => told.push(error);
  await client.connect(transport);
  return client;
}

// What the command prints with --json; of several lines the first. The doctor ends with 10 where it
// finds something, as it may on any machine.
function printed(words) {
  const { stdout, stderr, status } = spawnSync(command, words,
    { encoding: "utf8", maxBuffer: 1 << 26 });
  assert.ok(status === 0 || (status === 10 && words[0] === "doctor"), `${status}: ${stderr}`);
  return JSON.parse(stdout.split("\n")[0]);
}

// The names of an object and of what kind each is: values differ from look to look.
function shape(value) {
  const kind = (member) => (Array.isArray(member) ? "list" : typeof member);
  return Object.entries(value).map(([name, member]) => [name, kind(member)]).sort();
}

const at = ["--node", node, ...access, "--json"];
const first = [node, ...access, "--json"];
const looks = [
  ["doctor", { seconds: 6 }, ["doctor", ...first, "--for", "6s"], /looked for [0-9.]+ s: /],
  ["top", {}, ["top", ...at, "--count", "1"], /reductions|red\/s/],
  ["top", { by: "queue", top: 1 }, ["top", ...at, "--count", "1"], /stuck/],
  ["pstack", {}, ["pstack", ...at], /scheduler/],
  ["pstack", { processes: ["stuck", "nix"] }, ["pstack", ...at, "stuck", "nix"],
    /there is no process nix/],
  ["waits", {}, ["waits", ...first], /wait for stuck/],
  ["waits", { process: "stuck" }, ["waits", node, "stuck", ...access, "--json"], /stuck/],
  ["mailbox", { process: "stuck" }, ["mailbox", node, "stuck", ...access, "--json"],
    /stuck.*: 3 messages/],
  ["memory", {}, ["memory", ...first], /RSS/],
  ["binaries", {}, ["binaries", ...first], /binaries/],
  ["tables", { by: "objects", top: 3 }, ["tables", ...first], /tables, [0-9,]+ objects, /],
  ["xray", { process: "stuck" }, ["xray", node, "stuck", ...access, "--json"], /stuck/],
  ["hot", { seconds: 1 }, ["hot", file, "--json"], /samples/],
  ["hot", { seconds: 1, mode: "schedulers", idle: true }, ["hot", file, "--idle", "--json"],
    /samples/],
];

const client = await connected([node]);

await test("the server says its name, and that it has tools only", async () => {
  assert.equal(client.getServerVersion().name, "flame_prof");
  assert.deepEqual(client.getServerCapabilities(), { tools: {} });
  assert.match(client.getInstructions(), new RegExp(node));
  assert.deepEqual(await client.ping(), {});
});

await test("its tools only read, and say so", async () => {
  const { tools } = await client.listTools();
  const names = new Set(tools.map((tool) => tool.name));
  for (const [name] of looks) assert.ok(names.has(name), name);
  for (const tool of tools) {
    assert.equal(tool.annotations.readOnlyHint, true, tool.name);
    assert.ok(tool.description.length > 100, tool.name);
    assert.ok(!tool.inputSchema.required.includes("node"), tool.name);
  }
});

for (const [name, args, words, wanted] of looks) {
  await test(`${name} ${JSON.stringify(args)} is what the command prints`, async () => {
    const answer = await client.callTool({ name, arguments: args });
    assert.equal(answer.isError, false, JSON.stringify(answer.content));
    assert.equal(answer.content.length, 1);
    assert.match(answer.content[0].text, wanted);
    const { node: of, ...rest } = answer.structuredContent;
    assert.equal(of, node);
    // A file is of no one node.
    const answered = shape({ ...(words[1] === file ? {} : { node: of }), ...rest });
    assert.deepEqual(answered, shape(printed(words)));
  });
}

await test("an error is the command's own sentence", async () => {
  for (const [name, process] of [["mailbox", "nix"], ["xray", "<0.99999.0>"]]) {
    const answer = await client.callTool({ name, arguments: { process } });
    const words = [name, node, process, ...access];
    const { stderr, status } = spawnSync(command, words, { encoding: "utf8" });
    assert.equal(status, 1);
    assert.equal(answer.isError, true);
    assert.equal(`flame_prof: ${answer.content[0].text}\n`, stderr);
  }
});

await test("wrong arguments are invalid params", async () => {
  const wrong = [["nix", {}], ["xray", {}], ["hot", { seconds: 99 }], ["memory", { node: "a@b" }]];
  for (const [name, args] of wrong) {
    await assert.rejects(client.callTool({ name, arguments: args }), { code: -32602 });
  }
});

await test("a question is answered while a recording runs", async () => {
  const order = [];
  const ask = async (name, args) => {
    await client.callTool({ name, arguments: args });
    order.push(name);
  };
  const ping = () => client.ping().then(() => order.push("ping"));
  await Promise.all([ask("hot", { seconds: 3 }), ask("mailbox", { process: "stuck" }), ping()]);
  assert.equal(order.at(-1), "hot");
});

await test("a cancelled recording makes room for the next one", async () => {
  const gone = new AbortController();
  const call = { name: "hot", arguments: { seconds: 30 } };
  const recorded = client.callTool(call, undefined, { signal: gone.signal });
  setTimeout(() => gone.abort("not wanted"), 1000);
  await assert.rejects(recorded, /not wanted/);
  for (let tries = 0; ; tries += 1) {
    const next = await client.callTool({ name: "hot", arguments: { seconds: 1 } });
    if (!next.isError) break;
    assert.ok(tries < 20, next.content[0].text);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
});

await test("a client without nodes names them", async () => {
  const other = await connected([]);
  const { tools } = await other.listTools();
  for (const tool of tools) assert.ok(tool.inputSchema.required.includes("node"), tool.name);
  const answer = await other.callTool({ name: "memory", arguments: { node } });
  assert.equal(answer.isError, false);
  const [, host] = node.split("@");
  const absent = await other.callTool({ name: "memory", arguments: { node: `absent@${host}` } });
  assert.match(absent.content[0].text, /absent/);
  assert.equal(absent.isError, true);
  await other.close();
});

await client.close();
await test("nothing but the protocol was written", () => assert.deepEqual(told, []));
console.log(`${passed} ${failed}`);
