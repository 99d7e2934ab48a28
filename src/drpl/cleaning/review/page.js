"use strict";
const boot = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const FINDINGS = {
  mislabelled: "mislabelled: looks like another class",
  outside: "outside: looks like none of the classes",
  ambiguous: "ambiguous: could be either",
};
const VERDICTS = Object.keys(FINDINGS);
const STATES = {
  undecided: "undecided", decided: "decided", accept: "accepted", keep: "kept", relabel: "other class", outside: "not any class",
};

// --- Where the issues come from and the decisions go: a server, or this very page -------------

// Both give the issues once, and lines of the log of decisions: { start, lines }, `start` being the
// place of the first one in the log.
class Server {
  async ask(path, content) {
    const options = content === undefined ? {} : {
      method: "POST",
      priority: "high",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(content),
    };
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("the server does not answer; start drpl review again and open its new address");
    }
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    let reason = text;
    try { reason = JSON.parse(text).error; } catch { /* it was a plain sentence */ }
    throw new Error(reason);
  }
  issues() { return this.ask("/api/issues"); }
  decisions(since) { return this.ask("/api/decisions?since=" + since); }
  decide(since, id, action, label) { return this.ask("/api/decide", { since, id, action, label }); }
  image(id, size) { return `/image/${size}/${id}`; }
}

class Embedded {
  constructor() {
    this.place = "drpl-review-" + boot.key;
    this.own = []; // what was decided on this page
    try { this.own = JSON.parse(localStorage.getItem(this.place) || "[]"); } catch { /* then there is nothing */ }
    const ids = new Set(boot.issues.index);
    this.own = this.own.filter((line) => ids.has(line.id));
    const key = ({ time, who, id, action }) => JSON.stringify([time, who, id, action]);
    const known = new Set(boot.decisions.map(key)); // taken in before this page was written
    this.lines = [...boot.decisions, ...this.own.filter((line) => !known.has(key(line)))];
  }
  issues() { return boot.issues; }
  decisions(since) { return { start: since, lines: this.lines.slice(since) }; }
  decide(since, id, action, label) {
    const line = { time: new Date().toISOString(), who: $("who").value.trim() || boot.who, id, action, label };
    this.own.push(line);
    this.lines.push(line);
    let warning = "";
    try {
      localStorage.setItem(this.place, JSON.stringify(this.own));
    } catch { warning = "Not saved: this browser keeps nothing; download decisions.csv before you leave"; }
    return { ...this.decisions(since), warning };
  }
  image(id) { return boot.images[id]; }
  file() {
    const quoted = (text) => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    const lines = this.own.map((line) => [line.time, line.who, String(line.id), line.action, line.label, ""].map(quoted).join(","));
    return ["time,who,id,action,label,why", ...lines, ""].join("\n");
  }
}

// --- The issues and the decisions on them ------------------------------------------------------

// An undo takes back the last decision on its image; the one before it holds again.
class Decisions {
  lines = [];
  stacks = new Map(); // of each image
  follow({ start, lines }) {
    for (const line of lines.slice(this.lines.length - start)) { // the others are known
      const stack = this.stacks.get(line.id) ?? [];
      if (line.action === "undo") stack.pop(); else stack.push(line);
      this.stacks.set(line.id, stack);
      this.lines.push(line);
    }
  }
  on(id) { return this.stacks.get(id)?.at(-1); }
  last() { return this.lines.findLast((line) => this.on(line.id) === line); }
}

const ORDERS = {
  worst: () => 0,
  confidence: (a, b) => (b.confidence ?? -1) - (a.confidence ?? -1),
  class: (a, b) => a.rank - b.rank || VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict),
  id: (a, b) => a.id - b.id,
};

class Issues {
  constructor({ columns, index, data }, decisions) {
    this.decisions = decisions;
    const place = Object.fromEntries(columns.map((name, k) => [name, k]));
    const all = data.map((cells, k) => ({
      id: index[k],
      rank: cells[place.given],
      given: boot.classes[cells[place.given]],
      suggested: boot.classes[cells[place.suggested]],
      verdict: cells[place.verdict],
      path: cells[place.path],
      p_noisy: cells[place.p_noisy],
      confidence: cells[place.confidence],
      near: { given: cells[place.near_given], suggested: cells[place.near_suggested] },
    }));
    this.orders = { worst: all };
  }
  inState(row, state) {
    const action = this.decisions.on(row.id)?.action;
    return !state || state === (action ? "decided" : "undecided") || state === action;
  }
  select({ class: given, suggested, verdict, state, sort }) {
    this.orders[sort] ??= [...this.orders.worst].sort(ORDERS[sort]);
    return this.orders[sort].filter((row) => (!given || row.given === given) && (!suggested || row.suggested === suggested)
      && (!verdict || row.verdict === verdict) && this.inState(row, state));
  }
  count() {
    const counts = { given: {}, suggested: {}, verdict: {}, state: { undecided: 0, decided: 0 } };
    const add = (kind, name) => { counts[kind][name] = (counts[kind][name] || 0) + 1; };
    for (const row of this.orders.worst) {
      const action = this.decisions.on(row.id)?.action;
      for (const kind of ["given", "suggested", "verdict"]) add(kind, row[kind]);
      add("state", action ? "decided" : "undecided");
      if (action) add("state", action);
    }
    return counts;
  }
}

const source = boot.issues ? new Embedded() : new Server();
const decisions = new Decisions();
const filters = ["class", "suggested", "verdict", "state", "sort", "size"];
let issues, rows = [], total = 0, start = 0, chosen = -1, loading = 0;

// --- What a decision means ---------------------------------------------------------------------

const wanted = (row) => row.verdict === "outside" ? "not any class" : row.suggested;
const percent = (share) => share === null ? "unknown" : (100 * share).toFixed(share > 0.995 && share < 1 ? 1 : 0) + "\u00a0%";
function meant(decision) {
  return { accept: "✓ ", keep: "= ", relabel: "→ ", outside: "✕ " }[decision.action]
    + (decision.action === "outside" ? "not any class" : decision.label);
}

// --- Showing -------------------------------------------------------------------------------------

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function picture(image, id, size, alt) {
  image.classList.add("waiting"); // the image that was here before must not be taken for this one
  image.onload = () => { image.classList.remove("waiting"); image.classList.toggle("small", image.naturalWidth < 100); };
  image.onerror = () => image.classList.remove("waiting");
  image.alt = alt;
  image.src = source.image(id, size);
  return image;
}

const spoken = (row) => `Image ${row.id}: given ${row.given}, suggested ${wanted(row)}`;

function card(row, index) {
  const item = make("li", { className: "card", id: "card-" + row.id, tabIndex: -1 });
  item.setAttribute("role", "option");
  const image = make("img", { loading: "lazy", decoding: "async", width: 256, height: 256 });
  item.append(picture(image, row.id, "small", ""), make("p", { textContent: `${row.given} → ${wanted(row)}` }),
    make("small", { textContent: `${percent(row.p_noisy)} · ${row.verdict}`, title: "how probable it is that the label is wrong" }), make("div", { className: "mark" }));
  item.onclick = () => select(index);
  item.ondblclick = () => zoom(true);
  return item;
}

function mark(row) {
  const item = $("card-" + row.id);
  if (!item) return;
  const decision = decisions.on(row.id);
  const text = row.failed ? "not saved" : row.saving ? "saving …" : decision ? meant(decision) : "";
  item.dataset.state = row.failed ? "failed" : row.saving ? "saving" : decision?.action ?? "";
  item.setAttribute("aria-label", spoken(row) + (text ? `; ${text}` : "; undecided"));
  item.querySelector(".mark").textContent = text;
}

function showGrid() {
  const items = [];
  let group = "";
  rows.forEach((row, index) => {
    const title = `${row.given} · ${row.verdict}`;
    if ($("sort").value === "class" && title !== group) {
      const head = make("li", { className: "group", textContent: title });
      head.setAttribute("role", "presentation");
      items.push(head);
      group = title;
    }
    items.push(card(row, index));
  });
  $("grid").replaceChildren(...items);
  $("grid").scrollTop = 0;
  rows.forEach(mark);
  $("nothing").hidden = rows.length > 0;
  $("grid").hidden = rows.length === 0;
  $("where").textContent = rows.length ? `${start + 1}–${start + rows.length} of ${total}` : "0 of 0";
  $("back").disabled = start === 0;
  $("next").disabled = following() >= remaining();
}

function showPanel() {
  const row = rows[chosen];
  $("panel").hidden = !row;
  if (!row) return;
  $("given").textContent = `${row.given} (wrong with ${percent(row.p_noisy)})`;
  $("proposal").textContent = row.verdict === "outside"
    ? `not any class (nearest: ${row.suggested}, ${percent(row.confidence)})` : `${row.suggested} (${percent(row.confidence)})`;
  $("finding").textContent = FINDINGS[row.verdict];
  $("path").textContent = row.path || `image ${row.id}`;
  $("accept").replaceChildren(make("kbd", { textContent: "a" }), ` Accept: ${wanted(row)}`);
  $("accept").title = `Accept: ${wanted(row)}`;
  $("keep").replaceChildren(make("kbd", { textContent: "k" }), ` Keep: ${row.given}`);
  $("keep").title = `Keep: ${row.given}`;
  const decision = decisions.on(row.id);
  $("stands").hidden = !decision;
  $("retract").hidden = !decision;
  $("stands").dataset.state = decision?.action ?? "";
  if (decision) $("stands").textContent = `${meant(decision)} — ${decision.who}, ${new Date(decision.time).toLocaleString()}`;
  if (row !== pictured) showPictures(row);
}

// Who runs through the images needs none of those beside them, and decisions must not queue behind them.
let pictured, resting, moved = 0;
function showPictures(row) {
  pictured = row;
  $("large").classList.add("waiting");
  $("near_given").replaceChildren();
  $("near_suggested").replaceChildren();
  $("near-given-title").textContent = `Surely ${row.given}`;
  $("near-suggested-title").textContent = `Surely ${row.suggested}`;
  $("other").hidden = row.suggested === row.given;
  const hurry = performance.now() - moved < 200;
  moved = performance.now();
  clearTimeout(resting);
  resting = setTimeout(() => {
    picture($("large"), row.id, "large", spoken(row));
    if ($("zoom").open) showZoom(row.id, spoken(row));
    for (const kind of ["given", "suggested"]) near("near_" + kind, row[kind], row.near[kind].split(" ").filter(Boolean));
  }, hurry ? 150 : 0);
}

function near(place, name, ids) {
  const buttons = ids.map((id) => {
    const button = make("button", { type: "button", onclick: () => { showZoom(id, `Image ${id}: surely ${name}`); $("zoom").showModal(); } });
    button.setAttribute("aria-label", `Zoom in on image ${id}, surely ${name}`);
    button.append(picture(make("img", { loading: "lazy" }), id, "small", `Image ${id}, surely ${name}`));
    return button;
  });
  $(place).replaceChildren(...(ids.length ? buttons : [make("span", { textContent: "no clean image to compare with" })]));
}

function showProgress() {
  const total = issues.orders.worst.length, decided = issues.orders.worst.filter((row) => decisions.on(row.id)).length;
  $("bar").max = Math.max(1, total);
  $("bar").value = decided;
  $("tally").textContent = `${decided} of ${total} decided`;
}

function showFilters() {
  const counts = issues.count();
  const fill = (id, names, kind, title = (name) => name) => {
    const select = $(id), value = select.value;
    const options = names.filter((name) => counts[kind][name] || name === value)
      .map((name) => make("option", { value: name, textContent: `${title(name)} (${counts[kind][name] || 0})` }));
    select.replaceChildren(make("option", { value: "", textContent: "all" }), ...options);
    select.value = value;
  };
  fill("class", boot.classes, "given");
  fill("suggested", boot.classes, "suggested");
  fill("verdict", VERDICTS, "verdict");
  fill("state", Object.keys(STATES), "state", (name) => STATES[name]);
}

let fading;
function tell(text, failed = false) {
  const news = $("news");
  news.textContent = text;
  news.classList.toggle("failed", failed);
  news.setAttribute("role", failed ? "alert" : "status");
  news.hidden = false;
  clearTimeout(fading);
  if (!failed) fading = setTimeout(() => { news.hidden = true; }, 2500);
}

// --- Moving --------------------------------------------------------------------------------------

// Issues that no longer match the filter leave the list when the next page is loaded.
const following = () => start + rows.filter((row) => issues.inState(row, $("state").value)).length;
const remaining = () => total - rows.filter((row) => !issues.inState(row, $("state").value)).length;

// Keys pressed while a page loads wait for it and mean its cards; if it does not come they mean nothing.
const waiting = [];
let turning = 0;
async function hold(work) {
  turning++;
  const come = await work();
  turning--;
  if (!turning && come === false) waiting.length = 0;
  while (!turning && waiting.length) waiting.shift()();
  return come;
}
function whenTurned(act) { if (turning) waiting.push(act); else act(); }

const load = (from, last = false) => hold(() => fetchPage(from, last));

// Gives false where there is no new page.
async function fetchPage(from, last) {
  const turn = ++loading;
  await settled();
  try {
    const [content, log] = await Promise.all([issues ? undefined : source.issues(), source.decisions(decisions.lines.length)]);
    decisions.follow(log);
    if (content) issues = new Issues(content, decisions);
  } catch (error) {
    tell(error.message, true);
    return false;
  }
  if (turn !== loading) return true; // another page was asked for meanwhile
  const query = Object.fromEntries(filters.map((name) => [name, $(name).value]));
  const found = issues.select(query), size = Number(query.size);
  total = found.length;
  start = Math.max(0, from);
  if (start >= total && start > 0) return fetchPage(start - size, true);
  rows = found.slice(start, start + size);
  for (const row of rows) row.failed = false;
  showProgress();
  showFilters();
  showGrid();
  select(last ? rows.length - 1 : 0);
  return true;
}

function select(index) {
  const before = rows[chosen] && $("card-" + rows[chosen].id);
  before?.setAttribute("aria-selected", "false");
  if (before) before.tabIndex = -1;
  chosen = Math.min(Math.max(index, 0), rows.length - 1);
  const item = rows[chosen] && $("card-" + rows[chosen].id);
  if (item) {
    item.setAttribute("aria-selected", "true");
    item.tabIndex = 0;
    if (top === window || document.hasFocus()) { // inside a report nothing moves before its reader comes
      if (!$("zoom").open && !filters.includes(document.activeElement.id)) item.focus({ preventScroll: true });
      item.scrollIntoView({ block: "nearest" });
    }
  }
  showPanel();
}

function turnPage(way) {
  return hold(async () => {
    await settled();
    if (way > 0 && following() < remaining()) return load(following());
    if (way < 0 && start > 0) return load(start - Number($("size").value));
    return false;
  });
}

function move(step) {
  const index = chosen + step;
  if (index >= rows.length && step === 1) turnPage(1);
  else if (index < 0 && step === -1 && start > 0) load(start - Number($("size").value), true);
  else if (index >= 0 && index < rows.length) select(index);
}

function lines(way) {
  const cards = [...$("grid").querySelectorAll(".card")];
  const here = cards[chosen]?.getBoundingClientRect();
  if (!here) return;
  const reach = way > 0 ? cards.slice(chosen + 1) : cards.slice(0, chosen).reverse();
  const next = reach.find((item) => Math.abs(item.getBoundingClientRect().left - here.left) < 2)
    ?? (way > 0 && reach.at(-1)?.getBoundingClientRect().top > here.top + 2 ? reach.at(-1) : undefined);
  if (next) select(cards.indexOf(next));
}

// --- Deciding ------------------------------------------------------------------------------------

// A decision goes out when its key is pressed, without waiting for those on other images. An undo
// waits for all that went out before it, and what comes after the undo waits for that.
const pending = new Set();
const trail = []; // the images that were decided on here, the last one last
let barrier;
const settled = () => Promise.all(pending);
function sent(after, work) {
  const done = Promise.all(after).then(work).finally(() => pending.delete(done));
  pending.add(done);
  return done;
}

async function write(id, action, label) {
  const answer = await source.decide(decisions.lines.length, id, action, label);
  decisions.follow(answer);
  showProgress();
  if (answer.warning) tell(answer.warning, true);
}

function decide(action, label) {
  const row = rows[chosen];
  if (!row) return;
  row.saving = true;
  row.failed = false;
  mark(row);
  trail.push(row.id);
  row.last = sent([barrier, row.last], async () => {
    try {
      await write(row.id, action, { accept: row.suggested, keep: row.given, relabel: label }[action] ?? "");
    } catch (error) {
      trail.splice(trail.lastIndexOf(row.id), 1);
      row.failed = !decisions.on(row.id);
      tell(`Not saved: ${error.message}`, true);
    }
    row.saving = false;
    mark(row);
    if (rows[chosen] === row) showPanel();
    $("next").disabled = following() >= remaining();
  });
  if (chosen + 1 < rows.length) select(chosen + 1);
  else turnPage(1);
}

function undo(id) {
  barrier = sent([settled()], async () => {
    const last = id ?? trail.findLast((other) => decisions.on(other)) ?? decisions.last()?.id;
    if (last === undefined) return tell("There is nothing to undo.");
    try {
      await write(last, "undo", "");
    } catch (error) {
      return tell(`Not undone: ${error.message}`, true);
    }
    if (trail.includes(last)) trail.splice(trail.lastIndexOf(last), 1);
    tell(`Undone: image ${last}`);
    const index = rows.findIndex((row) => row.id === last);
    if (index < 0) return;
    mark(rows[index]);
    select(index);
  });
}

const accept = () => decide(rows[chosen]?.verdict === "outside" ? "outside" : "accept");

// --- The list of classes ---------------------------------------------------------------------------

let matches = [], active = 0;
function offer() {
  const text = $("wanted").value.trim().toLowerCase();
  const first = boot.classes.filter((name) => name.toLowerCase().startsWith(text));
  const other = boot.classes.filter((name) => !name.toLowerCase().startsWith(text) && name.toLowerCase().includes(text));
  // An image that looks like no class may still be of the nearest one.
  const nearest = !text && rows[chosen].verdict === "outside" ? [rows[chosen].suggested] : [];
  matches = [...new Set([...nearest, ...first, ...other])].slice(0, 200);
  active = 0;
  $("choices").replaceChildren(...matches.map((name, index) => {
    const item = make("li", { id: "choice-" + index, textContent: name, onclick: () => take(index) });
    item.setAttribute("role", "option");
    return item;
  }));
  point(0);
}
function point(index) {
  active = Math.min(Math.max(index, 0), matches.length - 1);
  [...$("choices").children].forEach((item, k) => item.setAttribute("aria-selected", String(k === active)));
  $("choices").children[active]?.scrollIntoView({ block: "nearest" });
  $("wanted").setAttribute("aria-activedescendant", matches.length ? "choice-" + active : "");
}
function choose() {
  if (!rows[chosen]) return;
  $("wanted").value = "";
  offer();
  $("chooser").showModal();
  $("wanted").focus();
}
function take(index) {
  $("chooser").close();
  if (matches[index] !== undefined) decide("relabel", matches[index]);
}
$("wanted").oninput = offer;
$("wanted").onkeydown = (event) => {
  if (event.key === "ArrowDown") point(active + 1);
  else if (event.key === "ArrowUp") point(active - 1);
  else if (event.key === "Enter") take(active);
  else return;
  event.preventDefault();
};

// --- Zoom and help ---------------------------------------------------------------------------------

function showZoom(id, text) {
  picture($("largest"), id, "large", text);
  $("caption").textContent = text;
}
function zoom(open = !$("zoom").open) {
  if (!open) return $("zoom").close();
  if (!rows[chosen] || $("zoom").open) return;
  showZoom(rows[chosen].id, spoken(rows[chosen]));
  $("zoom").showModal();
}
function help() { if ($("help").open) $("help").close(); else $("help").showModal(); }
for (const id of ["zoom", "chooser"]) $(id).addEventListener("close", () => select(chosen));

// --- Keys and buttons --------------------------------------------------------------------------------

// What was typed for the list of classes before it could open.
function type(key) {
  if (key === "Enter") return take(active);
  if (key.length > 1) return;
  $("wanted").value += key;
  offer();
}

const once = { a: accept, k: () => decide("keep"), o: choose, n: () => decide("outside"), u: () => undo(), z: () => zoom(), "?": help };
const again = {
  ArrowRight: () => move(1), ArrowLeft: () => move(-1), ArrowDown: () => lines(1), ArrowUp: () => lines(-1),
  PageDown: () => turnPage(1), PageUp: () => turnPage(-1),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("chooser").open) return;
  if (event.target.matches("input, select")) return;
  if ($("help").open && event.key !== "?") return;
  const { key } = event;
  const single = event.repeat ? undefined : once[key.length === 1 ? key.toLowerCase() : key];
  const act = single ?? again[key] ?? (key === "Enter" && event.target.matches(".card") ? () => zoom() : undefined);
  if (!act && !turning) return;
  if (act) event.preventDefault();
  whenTurned(() => { if ($("chooser").open) type(key); else act?.(); });
});

Object.entries({
  accept, keep: () => decide("keep"), relabel: choose, outside: () => decide("outside"), undo: () => undo(),
  retract: () => undo(rows[chosen]?.id), look: () => zoom(true), zoom: () => zoom(false),
  helper: help, enough: help, back: () => turnPage(-1), next: () => turnPage(1),
}).forEach(([id, act]) => { $(id).onclick = () => whenTurned(act); });

// After a choice the keys are for the images again, at once. Who walks a closed list by arrows has
// not chosen before Enter.
for (const id of filters) {
  let walking = false;
  const leave = () => { $(id).blur(); select(chosen); };
  $(id).onfocus = $(id).onpointerdown = () => { walking = false; };
  $(id).onkeydown = ({ key }) => {
    if (key === "Enter" && walking) leave();
    walking = key.startsWith("Arrow");
  };
  $(id).onchange = () => {
    if (!walking) leave();
    load(0);
  };
}
addEventListener("resize", () => rows[chosen] && $("card-" + rows[chosen].id)?.scrollIntoView({ block: "nearest" }));

$("name").textContent = boot.name;
document.title = `Review ${boot.name}`;
if (source instanceof Embedded) {
  $("save").hidden = $("namer").hidden = false;
  $("who").value = boot.who;
  $("how").textContent = "Decisions stay in this browser until you download them; take the file in with drpl review DIR --import decisions.csv.";
  $("save").onclick = () => {
    const link = make("a", { download: "decisions.csv", href: URL.createObjectURL(new Blob([source.file()], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
} else {
  $("how").textContent = "Every decision is saved at once.";
  history.replaceState(null, "", "/"); // the token in the address has done its work
}
load(0);
