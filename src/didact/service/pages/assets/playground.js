// The playground with a script: results without a new page, arrow keys through the words, edits, and pictures.
// Everything else works without it. The server draws; this module only moves what it drew.

const form = document.getElementById("ask");
const posted = form.getAttribute("method") === "post"; // form.method is the field of that name
const working = document.getElementById("working");
let running = null; // what stops the request under way
let since = 0;

// Results -------------------------------------------------------------------------------------------------------------

function fields(changes = {}) {
  const data = new FormData(form);
  for (const [name, value] of [...data]) if (value === "") data.delete(name);
  for (const [name, value] of Object.entries(changes)) value ? data.set(name, value) : data.delete(name);
  return data;
}

async function explain(data, { remember = true } = {}) {
  running?.abort();
  const stop = (running = new AbortController());
  const address = posted ? form.action : `/?${new URLSearchParams(data)}`;
  busy(true);
  try {
    const options = posted ? { method: "POST", body: data } : {};
    const response = await fetch(address, { ...options, signal: stop.signal });
    show(await response.text());
    if (remember && !posted) history.pushState(null, "", address);
  } catch (problem) {
    if (problem.name !== "AbortError") say("The service did not answer. Is it still running?");
  } finally {
    if (running === stop) busy(false);
  }
}

// The images of a page stand in its style element, which the policy ties to that page; a sheet made here is allowed.
function show(html) {
  const sheet = new CSSStyleSheet();
  const rest = html.replace(/<style nonce="[^"]*">([^<]*)<\/style>/, (_, rules) => (sheet.replaceSync(rules), ""));
  document.adoptedStyleSheets = [sheet];
  const page = new DOMParser().parseFromString(rest, "text/html");
  const fresh = page.getElementById("results");
  if (!fresh) return say("The service sent no page. Is the session over?");
  document.getElementById("results").replaceWith(document.adoptNode(fresh));
  for (const name of ["text", "second"]) {
    const [now, then] = [document.getElementById(name), page.getElementById(name)];
    if (now && then) now.value = then.value;
  }
  prepare();
}

function busy(on) {
  document.body.classList.toggle("busy", on);
  document.getElementById("results").setAttribute("aria-busy", String(on));
  clearInterval(since);
  working.textContent = on ? "computing…" : "";
  const start = performance.now();
  if (on) since = setInterval(() => (working.textContent = `computing… ${Math.round((performance.now() - start) / 1000)} s`), 1000);
}

function say(message) {
  working.textContent = message;
}

// Words ---------------------------------------------------------------------------------------------------------------

const score = (word) => Math.max(...[...word.title.matchAll(/: ([+-]?[\d.]+(?:e[+-]?\d+)?)/g)].map((match) => Math.abs(match[1])), 0);

// One word of each text is in the order of the Tab key; arrow keys move on from there.
function prepare() {
  for (const text of document.querySelectorAll("#explanations .text")) {
    const words = [...text.querySelectorAll("span[title]:not(.cut)")];
    const order = [...words].sort((a, b) => score(b) - score(a));
    order.forEach((word, rank) => {
      word.setAttribute("role", "button");
      word.setAttribute("aria-label", `${word.title}, rank ${rank + 1} of ${order.length}`);
      word.tabIndex = word === words[0] ? 0 : -1;
    });
  }
  const png = document.getElementById("png");
  if (png) png.hidden = false;
}

function neighbour(word, step) {
  const words = [...word.closest(".text").querySelectorAll("[tabindex]")];
  const at = words.indexOf(word) + step;
  return words[step === -Infinity ? 0 : step === Infinity ? words.length - 1 : at];
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

document.addEventListener("keydown", (event) => {
  const word = event.target.closest?.("#explanations .text [tabindex]");
  if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key in STEPS) focus(neighbour(word, STEPS[event.key]));
  else if (event.key === "Delete" || event.key === "Backspace") edit(word, "");
  else if (event.key === "Escape") release();
  else if (event.key === "Enter" || event.key === " " || event.key === "F2") about(word, true);
  else return;
  event.preventDefault();
});

function focus(word) {
  if (!word) return;
  for (const other of word.closest(".text").querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  word.tabIndex = 0;
  word.focus();
}

// A word that has the focus or was clicked stays shown until Escape, so that its buttons can be reached past others.
let chosen = null;
for (const kind of ["focusin", "mouseover", "click"]) {
  document.addEventListener(kind, (event) => {
    const word = event.target.closest?.("#explanations .text [tabindex]");
    if (!word || (kind === "mouseover" && chosen?.isConnected)) return;
    if (kind !== "mouseover") chosen = word;
    about(word, kind === "click" && event.pointerType !== "touch");
  });
}

function release() {
  chosen = null;
  document.getElementById("about").hidden = true;
}

// What is known of a word, and the two ways to change it.
function about(word, typing) {
  const place = document.getElementById("about");
  const row = element("span", { className: "row" });
  const input = element("input", { value: word.textContent, ariaLabel: "The word instead" });
  const change = element("button", { type: "button", textContent: "Replace", onclick: () => edit(word, input.value) });
  const remove = element("button", { type: "button", textContent: "Remove", onclick: () => edit(word, "") });
  input.onkeydown = (event) => {
    if (event.key === "Enter") edit(word, input.value);
    if (event.key === "Escape") focus(word);
    event.stopPropagation();
  };
  row.append(element("span", { textContent: word.getAttribute("aria-label") }), input, change, remove);
  place.replaceChildren(row);
  place.hidden = false;
  if (typing) input.select();
}

function element(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

// The text with a word replaced; one that is removed takes the blank before it along.
function edit(word, replacement) {
  const text = word.closest(".text");
  const places = [...text.closest("td").querySelectorAll(".text")];
  const area = document.getElementById(["text", "second"][places.indexOf(text)]);
  if (!area || area.disabled) return;
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEndBefore(word);
  const start = range.toString().length;
  const [before, after] = [area.value.slice(0, start), area.value.slice(start + word.textContent.length)];
  if (area.value.slice(start, start + word.textContent.length) !== word.textContent) {
    return say("The text was changed meanwhile: explain it first.");
  }
  const old = document.getElementById("text").value;
  area.value = (replacement ? before + replacement + after : before.replace(/\s$/, "") + after).trim();
  explain(fields(area.name === "text" ? { before: old } : {}));
}

// Form, links, history ------------------------------------------------------------------------------------------------

form.addEventListener("submit", (event) => {
  event.preventDefault();
  explain(fields());
});

form.addEventListener("change", (event) => {
  if (event.target.name === "model") location.assign(`/?${new URLSearchParams({ model: event.target.value })}`);
  if (event.target.name !== "method") return;
  const chosen = [...form.querySelectorAll("[name=method]:checked")].map((each) => each.parentElement.textContent);
  form.querySelector(".chosen summary b").textContent = chosen.join(", ") || "the default";
});

addEventListener("popstate", () => location.reload());

document.addEventListener("click", async (event) => {
  if (event.target.id === "link" && navigator.clipboard && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    await navigator.clipboard.writeText(event.target.href).then(
      () => say("The link was copied."),
      () => location.assign(event.target.href),
    );
  }
  if (event.target.id === "png") picture(event.target.form);
});

// A picture: the server's SVG, drawn by the browser with its own fonts.
async function picture(exports) {
  const data = new URLSearchParams({ document: exports.elements.document.value, form: "svg" });
  const response = await fetch("/export", { method: "POST", body: data });
  const drawing = await response.text();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing)}`;
  await image.decode();
  const [, width, height] = drawing.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/);
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: "explanations.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
}

prepare();
