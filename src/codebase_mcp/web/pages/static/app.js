// Shows the results of a tool in the frame that an MCP client gives them (SEP-1865, MCP Apps).
"use strict";

const HTML = "codebase-mcp/html";
const PROTOCOL = "2026-01-26";
const place = document.querySelector("main");
const waiting = new Map();
let host = {}, context = {}, input, lastId = 0;

function send(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function ask(method, params) {
  lastId += 1;
  send({ id: lastId, method, params });
  return new Promise((resolve, reject) => waiting.set(lastId, { resolve, reject }));
}

// From here on the document runs no script that is not running already, and asks nobody anything.
function lock() {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
  document.head.append(policy);
}

function say(text) {
  const said = document.createElement("p");
  said.className = "said";
  said.textContent = text;
  place.replaceChildren(said);
}

function show(html) {
  place.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  const copies = host.sandbox?.permissions?.clipboardWrite;
  for (const button of place.querySelectorAll("[data-js][hidden]")) button.hidden = !copies;
}

async function take(result) {
  let html = result._meta?.[HTML];
  // Some hosts keep metadata to themselves; what the frame asks for itself it gets whole.
  if (!html && !result.isError && input && host.serverTools) {
    const name = context.toolInfo?.tool?.name ?? document.body.dataset.tool;
    const again = await ask("tools/call", { name, arguments: input }).catch(() => ({}));
    html = again._meta?.[HTML];
  }
  if (html) return show(html);
  const error = result.structuredContent?.error;
  const texts = (result.content ?? []).filter((one) => one.type === "text").map((one) => one.text);
  say(error ? [error.message, error.hint].filter(Boolean).join("\n") : texts.join("\n"));
}

function adapt(changed) {
  context = { ...context, ...changed };
  if (["light", "dark"].includes(context.theme)) document.documentElement.style.colorScheme = context.theme;
}

const NOTIFICATIONS = {
  "ui/notifications/tool-input": (params) => { input = params.arguments ?? {}; },
  "ui/notifications/tool-result": take,
  "ui/notifications/tool-cancelled": () => say("The call was cancelled."),
  "ui/notifications/host-context-changed": adapt,
};

window.addEventListener("message", ({ source, data }) => {
  if (source !== window.parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    return data.error ? asked?.reject(data.error) : asked?.resolve(data.result);
  }
  if (data.id === undefined) return NOTIFICATIONS[data.method]?.(data.params ?? {});
  if (["ping", "ui/resource-teardown"].includes(data.method)) return send({ id: data.id, result: {} });
  send({ id: data.id, error: { code: -32601, message: `Unknown method: ${data.method}` } });
});

place.addEventListener("click", async (event) => {
  const text = event.target.closest(".copy")?.closest("[data-copy]").dataset.copy;
  if (!text) return;
  const toast = document.querySelector(".toast");
  const copied = navigator.clipboard.writeText(text);
  toast.textContent = await copied.then(() => `Copied ${text}`, () => "This client does not let apps copy");
  setTimeout(() => { toast.textContent = ""; }, 2000);
});

async function start() {
  const hello = {
    appInfo: { name: "codebase-mcp", version: document.body.dataset.version },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    protocolVersion: PROTOCOL,
  };
  const answer = await ask("ui/initialize", hello);
  host = answer.hostCapabilities ?? {};
  adapt(answer.hostContext ?? {});
  send({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const { width, height } = document.documentElement.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
  }).observe(document.documentElement);
}

lock();
start();
