// Pages work without this file. It searches while you type, and adds keys, copying and live progress.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const WAIT_MS = 180;
const RETRY_MS = 3000;
const LEAST_TEXT = 3;

function reveal(within = document) {
  for (const hidden of $$("[data-js][hidden]", within)) hidden.hidden = false;
}

function say(text) {
  const toast = $(".toast");
  toast.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { toast.textContent = ""; }, 2000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${text}`);
  } catch {
    say("This browser does not let pages copy here");
  }
}

function replace(place, html) {
  // Parsed as a document, in which scripts do not run; the policy forbids inline ones anyway.
  const parsed = new DOMParser().parseFromString(html, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
  reveal(place);
}

// Results, or why there are none: an expression is invalid for a moment while it is typed. Then the
// former results stay, pale.
function showAnswer(form, results, html) {
  const problem = $("template[data-problem]", new DOMParser().parseFromString(html, "text/html"));
  $("#problem").replaceChildren(...(problem?.content.childNodes ?? []));
  form.q.ariaInvalid = problem ? "true" : null;
  results.classList.toggle("outdated", Boolean(problem));
  if (!problem) replace(results, html);
}

// Search while typing: after a pause, and a question that is outdated is cancelled.
function searchAsYouType(form) {
  const results = $("#results");
  let timer, running, last = new URLSearchParams(new FormData(form)).toString();
  const ask = async () => {
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    if (query.toString() === last || !query.get("q")?.trim()) return;
    running?.abort();
    // A shorter text is in most files: Enter searches for it.
    if (query.get("by") === "text" && query.get("q").length < LEAST_TEXT) {
      results.classList.add("outdated");
      last = "";
      return;
    }
    last = query.toString();
    running = new AbortController();
    results.classList.add("busy");
    try {
      const answer = await fetch(`${form.dataset.results}?${query}`, { signal: running.signal });
      if (answer.status === 401) return form.requestSubmit();
      const html = await answer.text();
      if (answer.ok) {
        showAnswer(form, results, html);
        history.replaceState(null, "", `${form.action}?${query}`);
        document.title = `${query.get("q")} · codebase-mcp`;
      } else {
        // Perhaps only the half of a branch's name: who types is not taken elsewhere.
        const page = new DOMParser().parseFromString(html, "text/html");
        results.replaceChildren($(".problem", page) ?? "");
      }
      results.classList.remove("busy");
    } catch (error) {
      if (error.name !== "AbortError") form.requestSubmit();
    }
  };
  form.addEventListener("input", (event) => {
    if (event.target.name === "project") return;
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  form.addEventListener("change", (event) => {
    if (event.target.name !== "project") return;
    for (const name of ["repository", "language"]) if (form[name]) form[name].value = "";
    form.requestSubmit();
  });
}

function choose(step) {
  const hits = $$(".hit");
  if (!hits.length) return;
  const now = hits.findIndex((hit) => hit.classList.contains("chosen"));
  const next = hits[Math.min(Math.max(now + step, 0), hits.length - 1)];
  hits[now]?.classList.remove("chosen");
  next.classList.add("chosen");
  next.closest("details")?.setAttribute("open", "");
  $(".path", next).focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => { $("#q")?.focus(); $("#q")?.select(); },
  j: () => choose(1),
  k: () => choose(-1),
  y: () => { const hit = $(".hit.chosen") ?? $("[data-copy]"); if (hit) copy(hit.dataset.copy); },
  "?": () => $(".help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && isTyping) {
    event.preventDefault(); // else Chromium empties the search box
    return event.target.blur();
  }
  if (isTyping || $("dialog[open]") || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches(".copy")) copy(button.closest("[data-copy]").dataset.copy);
  if (button?.matches(".copy-path")) copy(button.dataset.text);
  if (button?.matches(".keys")) $(".help").showModal();
});

// In a file, a click on a name offers its definition and uses.
function offerNames(file) {
  const code = $(".code", file);
  code.addEventListener("click", (event) => {
    $(".word")?.remove();
    if (event.target.closest("a") || !getSelection().isCollapsed) return;
    const name = nameAt(event.clientX, event.clientY);
    const line = event.target.closest(".l")?.id.slice(1);
    if (!name || !line) return;
    const offer = document.createElement("div");
    offer.className = "word";
    for (const [text, operation] of [["Uses", "references"], ["Callers", "callers"]]) {
      const link = document.createElement("a");
      const url = new URL(file.dataset.symbol, location.href);
      url.searchParams.set("name", name);
      url.searchParams.set("operation", operation);
      link.href = url;
      link.textContent = `${text} of ${name}`;
      offer.append(link);
    }
    document.body.append(offer);
    offer.style.left = `${Math.min(event.pageX, innerWidth - offer.offsetWidth - 12)}px`;
    offer.style.top = `${event.pageY + 14}px`;
  });
}

function nameAt(x, y) {
  const at = document.caretPositionFromPoint?.(x, y);
  const range = at ? null : document.caretRangeFromPoint?.(x, y);
  const node = at?.offsetNode ?? range?.startContainer;
  const offset = at?.offset ?? range?.startOffset;
  if (node?.nodeType !== Node.TEXT_NODE) return "";
  const before = node.data.slice(0, offset).match(/[\p{L}\p{N}_$]*$/u)[0];
  const after = node.data.slice(offset).match(/^[\p{L}\p{N}_$]*/u)[0];
  const name = before + after;
  return /^[\p{L}_$]/u.test(name) ? name : "";
}

// How far index runs are, as it happens; when one ends the page shows its result.
function followRuns(place) {
  const events = new EventSource(place.dataset.events);
  events.onmessage = (event) => replace(place, JSON.parse(event.data));
  // A browser connects again by itself, except after an answer that is an error.
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED) setTimeout(followRuns, RETRY_MS, place);
  };
  events.addEventListener("done", () => {
    // What somebody is filling in would be lost.
    if ($$("main input").some((input) => input.value !== input.defaultValue)) return;
    events.close();
    const url = new URL(location.href);
    url.searchParams.delete("done"); // what was begun has ended
    location.replace(url);
  });
  // The answer to a form is the next page, also if a run ends meanwhile.
  document.addEventListener("submit", () => events.close());
}

// On a phone the outline would hide the file.
if (matchMedia("(max-width: 55rem)").matches) $(".outline details")?.removeAttribute("open");

reveal();
if ($("#progress")?.dataset.events) followRuns($("#progress"));
if ($(".file[data-symbol]")) offerNames($(".file[data-symbol]"));
if ($("form[data-results]")) searchAsYouType($("form[data-results]"));
