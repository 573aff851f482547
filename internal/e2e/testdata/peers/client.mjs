// A client on the TypeScript SDK. It connects to the endpoint that its argument
// describes, lists everything, makes the calls it is told to, and prints what
// came back as one JSON object.
//
//   node client.mjs '{"url": "http://…/mcp", "calls": [{"name": "echo", "arguments": {"text": "x"}}]}'
//   node client.mjs '{"command": "hermes-host", "args": ["stdio"], "calls": []}'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const { url, command, args, calls, read, givenUp } = JSON.parse(process.argv[2]);
const client = new Client({ name: "e2e-typescript", version: "1.0.0" });
let gets = 0; // requests for a stream
const counting = (to, init) => {
  if (init?.method === "GET") gets++;
  return fetch(to, init);
};
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { fetch: counting })
  : new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
let changes = 0;
let changed = () => {};
client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
  changes++;
  changed();
});
await client.connect(transport);

async function list(method, key) {
  const all = [];
  let cursor;
  do {
    const page = await client[method](cursor ? { cursor } : undefined);
    all.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor);
  return all;
}

// Servers that start slowly join the list later, and the host says so: list
// again upon each change until everything that is to be called is there.
async function listTools() {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const seen = changes;
    const names = (await list("listTools", "tools")).map((t) => t.name);
    const left = deadline - Date.now();
    if (left <= 0 || (calls ?? []).every((c) => names.includes(c.name))) return names;
    if (changes === seen) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

const capabilities = client.getServerCapabilities();
const out = {
  server: client.getServerVersion(),
  tools: capabilities.tools ? await listTools() : [],
  resources: capabilities.resources ? (await list("listResources", "resources")).map((r) => r.uri) : [],
  templates: capabilities.resources ? (await list("listResourceTemplates", "resourceTemplates")).map((t) => t.uriTemplate) : [],
  prompts: capabilities.prompts ? (await list("listPrompts", "prompts")).map((p) => p.name) : [],
  calls: [],
  contents: [],
  gets: [],
};
for (const call of calls ?? []) out.calls.push(await client.callTool(call));
for (const uri of read ?? []) out.contents.push((await client.readResource({ uri })).contents[0].text);
// A call that the client gives up after its first progress. What matters is how
// often a stream is asked for in the time after that.
for (const call of givenUp ?? []) {
  const before = gets;
  const enough = new AbortController();
  await client.callTool(call, undefined, { signal: enough.signal, onprogress: () => enough.abort() }).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  out.gets.push(gets - before);
}
await client.close();
console.log(JSON.stringify(out));
