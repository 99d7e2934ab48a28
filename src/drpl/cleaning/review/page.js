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
  undecided: "undecided", unseen: "not decided by you", disagreed: "disagreed", decided: "decided", accept: "accepted", keep: "kept", relabel: "other class", outside: "not any class",
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
  decide(since, ids, action, label) { return this.ask("/api/decide", { since, ids, action, label }); }
  forecast(ranked) { return this.ask("/api/forecast?ranked=" + ranked); }
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
  decide(since, ids, action, label) {
    const time = new Date().toISOString(), why = ids.length > 1 ? `for ${ids.length} alike at once` : "";
    const lines = ids.map((id) => ({ time, who: me(), id, action, label, why }));
    this.own.push(...lines);
    this.lines.push(...lines);
    let warning = "";
    try {
      localStorage.setItem(this.place, JSON.stringify(this.own));
    } catch { warning = "Not saved: this browser keeps nothing; download decisions.csv before you leave"; }
    return { ...this.decisions(since), warning };
  }
  image(id) { return boot.images[id]; }
  file() {
    const quoted = (text) => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    const lines = this.own.map((line) => [line.time, line.who, String(line.id), line.action, line.label, line.why ?? ""].map(quoted).join(","));
    return ["time,who,id,action,label,why", ...lines, ""].join("\n");
  }
}

// --- The issues and the decisions on them ------------------------------------------------------

const me = () => $("who").value.trim() || boot.who;

// Everyone has a decision on an image, the last that was not undone. Of several people's, the
// latest holds; while they give different labels the image is disputed.
class Decisions {
  lines = [];
  stacks = new Map(); // of each image, everyone's: name -> places of lines in the log
  follow({ start, lines }) {
    for (const line of lines.slice(this.lines.length - start)) { // the others are known
      const people = this.stacks.get(line.id) ?? new Map();
      if (line.action !== "undo") people.set(line.who, [...people.get(line.who) ?? [], this.lines.length]);
      else if (people.size) {
        const who = people.has(line.who) ? line.who : this.lines[this.latest(people)].who;
        people.get(who).pop();
        if (!people.get(who).length) people.delete(who);
      }
      this.stacks.set(line.id, people);
      this.lines.push(line);
    }
  }
  latest(people) { return Math.max(...[...people.values()].map((stack) => stack.at(-1))); }
  everyone(id) { return [...this.stacks.get(id)?.values() ?? []].map((stack) => this.lines[stack.at(-1)]); }
  on(id) {
    const people = this.stacks.get(id);
    return people?.size ? this.lines[this.latest(people)] : undefined;
  }
  own(id) { return this.lines[this.stacks.get(id)?.get(me())?.at(-1)]; }
  disputed(id) { return new Set(this.everyone(id).map((line) => line.label)).size > 1; }
  // The images of one's last decision: several, if it was on look-alikes.
  last() {
    const last = this.lines.findLast((line) => this.own(line.id) === line);
    const number = (line) => /for (\d+) alike at once$/.exec(line.why ?? "")?.[1];
    if (!last || !number(last)) return last && [last.id];
    const together = (line) => line.time === last.time && number(line) === number(last) && this.own(line.id) === line;
    return this.lines.filter(together).map((line) => line.id);
  }
}

const ORDERS = {
  worst: () => 0,
  confidence: (a, b) => (b.confidence ?? -1) - (a.confidence ?? -1),
  class: (a, b) => a.rank - b.rank || VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict),
  id: (a, b) => a.id - b.id,
  alike: (a, b) => b.mates.length - a.mates.length || a.group - b.group,
};

class Issues {
  constructor({ columns, index, data }, decisions) {
    this.decisions = decisions;
    const place = Object.fromEntries(columns.map((name, k) => [name, k]));
    const all = data.map((cells, k) => ({
      id: index[k],
      ids: [index[k]], // the images that a decision on this card is on
      rank: cells[place.given],
      given: boot.classes[cells[place.given]],
      suggested: boot.classes[cells[place.suggested]],
      verdict: cells[place.verdict],
      path: cells[place.path],
      p_noisy: cells[place.p_noisy],
      ends: [cells[place.p_low], cells[place.p_high]],
      group: cells[place.group],
      confidence: cells[place.confidence],
      near: { given: cells[place.near_given], suggested: cells[place.near_suggested] },
    }));
    const groups = new Map();
    for (const row of all) groups.set(row.group, [...row.group < 0 ? [] : groups.get(row.group) ?? [], row]);
    for (const row of all) row.mates = row.group < 0 ? [row] : groups.get(row.group);
    this.byId = new Map(all.map((row) => [row.id, row]));
    this.look = boot.look.map((id) => this.byId.get(id));
    this.orders = { worst: all.slice(0, boot.listed) }; // behind them: samples to look at that are no issues
    this.shown = new Set(); // ids that were on a page of the list
  }
  // Sort what nobody has seen yet. What was shown keeps its place, what was decided elsewhere goes to the end.
  rerank(order) {
    const unseen = order.filter((id) => !this.shown.has(id)), moved = new Set(unseen);
    const others = this.orders.worst.filter((row) => !moved.has(row.id));
    this.orders = { worst: [
      ...others.filter((row) => this.shown.has(row.id)),
      ...unseen.map((id) => this.byId.get(id)).filter(Boolean),
      ...others.filter((row) => !this.shown.has(row.id)),
    ] };
  }
  inState(row, state) {
    const action = this.decisions.on(row.id)?.action;
    if (state === "unseen") return !this.decisions.own(row.id);
    if (state === "disagreed") return this.decisions.disputed(row.id);
    return !state || state === (action ? "decided" : "undecided") || state === action;
  }
  select({ class: given, suggested, verdict, state, sort }) {
    this.orders[sort] ??= [...this.orders.worst].sort(ORDERS[sort]);
    return this.orders[sort].filter((row) => (!given || row.given === given) && (!suggested || row.suggested === suggested)
      && (!verdict || row.verdict === verdict) && this.inState(row, state));
  }
  count() {
    const counts = { given: {}, suggested: {}, verdict: {}, state: { undecided: 0, decided: 0 } };
    const several = new Set(this.decisions.lines.map((line) => line.who)).size > 1
      || this.decisions.lines.some((line) => line.who !== me());
    const add = (kind, name) => { counts[kind][name] = (counts[kind][name] || 0) + 1; };
    for (const row of this.orders.worst) {
      const action = this.decisions.on(row.id)?.action;
      for (const kind of ["given", "suggested", "verdict"]) add(kind, row[kind]);
      add("state", action ? "decided" : "undecided");
      if (action) add("state", action);
      if (several) for (const state of ["unseen", "disagreed"]) if (this.inState(row, state)) add("state", state);
    }
    return counts;
  }
}

// Two near-duplicates. What is of the test part is shown, but decisions are on training images only.
function pair(row, k) {
  const images = ["first", "second"].map((side) => Object.fromEntries(
    ["part", "id", "path", "label", "p_noisy"].map((name) => [name, row[`${side}_${name}`]])));
  const trained = images.filter((image) => image.part === "train");
  const made = { id: "pair-" + k, ids: trained.map((image) => image.id), images, similarity: row.similarity, kind: row.kind };
  return Object.assign(made, { labels: images.map((image) => image.label), given: trained[0].label, mates: [made] });
}

function outlier(row) {
  const made = { id: row.id, ids: [row.id], path: row.path, given: row.given_label, suggested: row.nearest_label, score: row.outlier_score };
  return Object.assign(made, { verdict: "outside", p_noisy: row.p_noisy, ends: [null, null], confidence: null, mates: [made] });
}

const source = boot.issues ? new Embedded() : new Server();
const decisions = new Decisions();
const filters = ["class", "suggested", "verdict", "state", "sort", "size"];
const TABS = { labels: "Labels", pairs: "Near-duplicates", outliers: "Outliers" };
const found = { pairs: boot.found.pairs.map(pair), outliers: boot.found.outliers.map(outlier) };
let issues, rows = [], total = 0, start = 0, chosen = -1, loading = 0;
let tab = "labels";
let looking = boot.look.length > 0; // at the sample that shows how many labels are wrong

// --- What a decision means ---------------------------------------------------------------------

const wanted = (row) => row.verdict === "outside" ? "not any class" : row.suggested;
const percent = (share) => share === null ? "unknown" : (share > 0.995 && share < 1 ? Math.min(99.9, 100 * share).toFixed(1) : (100 * share).toFixed(0)) + "\u00a0%";
const risk = ({ p_noisy, ends: [low, high] }) => typeof low === "number" && typeof high === "number"
  ? Math.round(100 * low) === Math.round(100 * high) ? percent(high) : `${Math.round(100 * low)} to ${percent(high)}`
  : percent(p_noisy);
const isDecided = (row) => row.ids.every((id) => decisions.on(id));
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

// Gives an image element what it shows: an image by its id, or by "test/" and its number there.
function picture(image, id, size, alt) {
  image.classList.add("waiting"); // the image that was here before must not be taken for this one
  image.onload = () => { image.classList.remove("waiting"); image.classList.toggle("small", image.naturalWidth < 100); };
  image.onerror = () => image.classList.remove("waiting");
  image.alt = alt;
  image.src = source.image(id, size);
  return image;
}

const address = (image) => image.part === "test" ? "test/" + image.id : image.id;
const spokenOne = (image) => `${image.part === "test" ? "Test image" : "Image"} ${image.id}: ${image.label}`;
const spoken = (row) => row.images ? `Near-duplicates. ${row.images.map(spokenOne).join("; ")}`
  : `Image ${row.id}: given ${row.given}, suggested ${wanted(row)}`;

// What stands below the image of a card: a line on labels, and a small one.
function describe(row) {
  if (row.images) {
    const same = row.labels[0] === row.labels[1], test = row.images.some((image) => image.part === "test");
    return [same ? `both ${row.labels[0]}` : row.labels.join(" ≠ "), test ? "with a test image: not decided" : `${row.kind} · ${percent(row.similarity)} alike`];
  }
  if (tab === "outliers") return [`${row.given}; nearest: ${row.suggested}`, `outlier score ${row.score.toFixed(2)}`];
  return [`${row.given} → ${wanted(row)}`, looking ? "" : `${risk(row)} · ${row.verdict || "not suspected"}`];
}

function card(row, index) {
  const item = make("li", { className: "card", id: "card-" + row.id, tabIndex: -1 });
  item.setAttribute("role", "option");
  const images = (row.images ?? [row]).map((one) =>
    picture(make("img", { loading: "lazy", decoding: "async", width: 256, height: 256 }), address(one), "small", ""));
  const [labels, more] = describe(row);
  item.append(make("div", { className: "shown" }, ...images), make("p", { textContent: labels }),
    make("small", { textContent: more, title: tab === "labels" ? "how probable it is that the label is wrong" : more }), make("div", { className: "mark" }));
  item.onclick = () => select(index);
  item.ondblclick = () => zoom(true);
  return item;
}

function mark(row) {
  const item = $("card-" + row.id);
  if (!item) return;
  const made = isDecided(row) ? row.ids.map((id) => decisions.on(id)) : [];
  const disputed = row.ids.some((id) => decisions.disputed(id));
  const texts = new Set(made.map((decision) => meant(decision) + (decision.who === me() ? "" : ` (${decision.who})`)));
  const text = row.failed ? "not saved" : row.saving ? "saving …" : (disputed && made.length ? "≠ " : "") + [...texts].join(", ");
  item.dataset.state = row.failed ? "failed" : row.saving ? "saving" : !made.length ? "" : disputed ? "disagreed" : outcome(made);
  item.setAttribute("aria-label", spoken(row) + (text ? `; ${text}` : "; undecided"));
  item.querySelector(".mark").textContent = text;
}

// What was done with a card: of a pair whose images were decided on differently, one was relabelled.
const outcome = (made) => made.every((one) => one.action === made[0].action) ? made[0].action : "relabel";

function showGrid() {
  const items = [];
  let group = "";
  const heads = {
    class: (row) => `${row.given} · ${row.verdict}`,
    alike: (row) => row.mates.length > 1 ? `${row.mates.length} look alike: ${row.given} → ${wanted(row)}${"\u200b".repeat(row.group % 2)}` : "alone",
  };
  rows.forEach((row, index) => {
    const title = looking || tab !== "labels" ? "" : heads[$("sort").value]?.(row) ?? "";
    if (title !== group) {
      const head = make("li", { className: "group", textContent: title });
      head.setAttribute("role", "presentation");
      items.push(head);
      group = title;
    }
    items.push(card(row, index));
  });
  $("grid").replaceChildren(...items);
  $("grid").classList.toggle("pairs", tab === "pairs");
  $("grid").scrollTop = 0;
  rows.forEach(mark);
  $("nothing").hidden = rows.length > 0;
  $("grid").hidden = rows.length === 0;
  $("guide").hidden = !looking;
  $("filters").hidden = looking || tab !== "labels";
  for (const item of $("tabs").children) item.setAttribute("aria-selected", String(item.id === "tab-" + tab));
  $("where").textContent = looking ? `a sample of ${total}` : rows.length ? `${start + 1}–${start + rows.length} of ${total}` : "0 of 0";
  $("back").disabled = start === 0;
  $("next").disabled = looking || following() >= remaining();
}

function showPanel() {
  const row = rows[chosen];
  $("panel").hidden = !row;
  if (!row) return;
  $("panel").classList.toggle("pairs", tab === "pairs");
  for (const id of ["look", "facts"]) $(id).hidden = tab === "pairs";
  $("nears").hidden = tab !== "labels";
  for (const id of ["both", "untouched"]) $(id).hidden = tab !== "pairs";
  showAlike(row);
  if (tab === "pairs") showPair(row);
  else showFacts(row);
  const made = row.ids.flatMap((id) => decisions.everyone(id));
  $("stands").hidden = !made.length;
  $("retract").hidden = !row.ids.some((id) => decisions.own(id));
  $("stands").dataset.state = row.ids.some((id) => decisions.disputed(id)) ? "disagreed" : isDecided(row) ? outcome(row.ids.map((id) => decisions.on(id))) : "";
  $("stands").textContent = made
    .map((line) => `${row.images ? `image ${line.id}: ` : ""}${meant(line)} — ${line.who}, ${new Date(line.time).toLocaleString()}`).join("\n");
  if (row !== pictured) showPictures(row);
}

function showFacts(row) {
  $("given").textContent = looking ? row.given : `${row.given} (wrong with ${risk(row)})`;
  $("proposal-title").textContent = tab === "outliers" ? "Nearest" : "Suggested";
  $("proposal").textContent = tab === "outliers" ? row.suggested : row.verdict === "outside"
    ? `not any class (nearest: ${row.suggested}, ${percent(row.confidence)})` : `${row.suggested} (${percent(row.confidence)})`;
  $("finding").textContent = tab === "outliers" ? `what lies near it is far, or of many classes (score ${row.score.toFixed(2)} of 1)`
    : FINDINGS[row.verdict] ?? "not suspected";
  for (const id of ["finding", "finding-title"]) $(id).hidden = looking;
  $("path").textContent = row.path || `image ${row.id}`;
  showButtons({ accept: tab === "labels" && ["a", `Accept: ${wanted(row)}`], keep: ["k", `Keep: ${row.given}`], relabel: ["o", "Other class …"], outside: ["n", "Not any class"] });
}

function showPair(row) {
  const test = row.images.find((image) => image.part === "test"), same = row.labels[0] === row.labels[1];
  const both = test ? "" : " for both", other = (label) => !same && !(test && label === row.given);
  $("untouched").hidden = !test;
  $("untouched").textContent = test ? `Image ${row.images.indexOf(test) + 1} is a test image, which a review does not change: you decide on the other.` : "";
  showButtons({
    "take-first": other(row.labels[0]) && ["1", `${row.labels[0]}${both}`],
    "take-second": other(row.labels[1]) && ["2", `${row.labels[1]}${both}`],
    keep: ["k", test || same ? `Keep: ${row.given}` : "Keep both labels"], relabel: ["o", `Other class${both} …`], outside: ["n", test ? "Not any class" : "Neither is any class"],
  });
}

// The buttons to decide by, each with its key; the others are hidden.
function showButtons(buttons) {
  for (const id of ["take-first", "take-second", "accept", "keep", "relabel", "outside"]) {
    const [key, text] = buttons[id] || [];
    $(id).hidden = !text;
    $(id).title = text ?? "";
    $(id).replaceChildren(make("kbd", { textContent: key ?? "" }), ` ${text ?? ""}`);
  }
}

// Those that look like the image and have no decision yet; one key decides on all of them.
const alike = (row) => row.mates.filter((mate) => mate === row || !decisions.on(mate.id) && !mate.saving);

function showAlike(row) {
  const all = looking ? [row] : alike(row);
  $("alike").hidden = all.length < 2;
  if (all.length < 2) return;
  $("alike-title").textContent = `${all.length - 1} more ${all.length > 2 ? "look" : "looks"} like this; for all ${all.length}:`;
  $("all-accept").lastChild.textContent = ` ${wanted(row)}`;
  $("all-keep").lastChild.textContent = ` keep ${row.given}`;
  $("all-outside").hidden = row.verdict === "outside"; // that is what is suggested
  const mates = all.filter((mate) => mate !== row).slice(0, 8);
  if (showAlike.ids === mates.map((mate) => mate.id).join()) return;
  showAlike.ids = mates.map((mate) => mate.id).join();
  $("mates").replaceChildren(...mates.map((mate) => picture(make("img", { loading: "lazy" }), mate.id, "small", spoken(mate))));
}

// Who runs through the images needs none of those beside them, and decisions must not queue behind them.
let pictured, resting, moved = 0;
function showPictures(row) {
  pictured = row;
  $("large").classList.add("waiting");
  for (const id of ["near_given", "near_suggested", "both"]) $(id).replaceChildren();
  $("near-given-title").textContent = `Surely ${row.given}`;
  $("near-suggested-title").textContent = `Surely ${row.suggested}`;
  $("other").hidden = row.suggested === row.given;
  const hurry = performance.now() - moved < 200;
  moved = performance.now();
  clearTimeout(resting);
  resting = setTimeout(() => {
    if ($("zoom").open) showZoom(spoken(row), ...(row.images ?? [row]).map(address));
    if (row.images) return $("both").replaceChildren(...row.images.map(side));
    picture($("large"), row.id, "large", spoken(row));
    if (row.near) for (const kind of ["given", "suggested"]) near("near_" + kind, row[kind], row.near[kind].split(" ").filter(Boolean));
  }, hurry ? 150 : 0);
}

// One of two near-duplicates, with what is known of it.
function side(image, k) {
  const button = make("button", { type: "button", onclick: () => zoom(true) }, picture(make("img"), address(image), "large", spokenOne(image)));
  const doubt = image.part === "test" ? "test image: not decided here" : `wrong with ${percent(image.p_noisy)}`;
  return make("figure", {}, button, make("figcaption", {},
    make("b", { textContent: `${k + 1}: ${image.label}` }), make("span", { textContent: doubt }), make("small", { textContent: image.path || `${image.part} image ${image.id}` })));
}

function near(place, name, ids) {
  const buttons = ids.map((id) => {
    const button = make("button", { type: "button", onclick: () => { showZoom(`Image ${id}: surely ${name}`, id); $("zoom").showModal(); } });
    button.setAttribute("aria-label", `Zoom in on image ${id}, surely ${name}`);
    button.append(picture(make("img", { loading: "lazy" }), id, "small", `Image ${id}, surely ${name}`));
    return button;
  });
  $(place).replaceChildren(...(ids.length ? buttons : [make("span", { textContent: "no clean image to compare with" })]));
}

function showProgress() {
  const all = found[tab] ?? issues.orders.worst, total = all.length, decided = all.filter(isDecided).length;
  $("bar").max = Math.max(1, total);
  $("bar").value = decided;
  $("tally").textContent = `${decided} of ${total} decided`;
}

function showFilters() {
  const counts = issues.count();
  const fill = (id, names, kind, title = (name) => name) => {
    const select = $(id), value = select.value;
    // Every state can be asked for: decisions since the page was loaded may have brought it about.
    const options = names.filter((name) => counts[kind][name] || name === value || kind === "state")
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
const matching = () => rows.filter((row) => tab !== "labels" || issues.inState(row, $("state").value)).length;
const following = () => start + matching();
const remaining = () => total - rows.length + matching();

// Keys pressed while a page loads wait for it and mean its cards. If none comes, a decision among
// them was meant for an image that is not there, and so was what follows it; other keys still count.
const waiting = [];
let turning = 0;
async function hold(work) {
  turning++;
  const come = await work();
  turning--;
  if (!turning && come === false && waiting[0]?.decides) {
    waiting.length = 0;
    tell("There is no next image: keys that ran ahead were not taken.");
  }
  while (!turning && waiting.length) waiting.shift().act();
  return come;
}
function whenTurned(act, decides = false) { if (turning) waiting.push({ act, decides }); else act(); }

const load = (from, last = false) => hold(() => fetchPage(from, last));

// Gives false where there is no new page.
async function fetchPage(from, last) {
  const turn = ++loading;
  await settled();
  try {
    const [content, log] = await Promise.all([issues ? undefined : source.issues(), source.decisions(decisions.lines.length)]);
    decisions.follow(log);
    if (content) {
      issues = new Issues(content, decisions);
      await refresh(); // an order that was learnt before holds from the first page on
      looking = undecidedLooks().length > 0;
    }
  } catch (error) {
    tell(error.message, true);
    return false;
  }
  if (turn !== loading) return true; // another page was asked for meanwhile
  const query = Object.fromEntries(filters.map((name) => [name, $(name).value]));
  const all = found[tab] ?? (looking ? issues.look : issues.select(query)), size = looking ? all.length : Number(query.size);
  total = all.length;
  start = Math.max(0, from);
  if (start >= total && start > 0) return fetchPage(start - size, true);
  rows = all.slice(start, start + size);
  for (const row of rows) {
    row.failed = false;
    if (tab === "labels" && !looking) issues.shown.add(row.id);
  }
  showProgress();
  showFilters();
  showGrid();
  showForecast();
  select(last ? rows.length - 1 : looking || tab !== "labels" ? rows.findIndex((row) => !isDecided(row)) : 0);
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
    if (looking) return way > 0 ? endLook() : false;
    if (way > 0 && following() < remaining()) return load(following());
    if (way < 0 && start > 0) return load(start - Number($("size").value));
    return false;
  });
}

function move(step) {
  const index = chosen + step;
  if (index >= rows.length && step === 1) turnPage(1);
  else if (index < 0 && step === -1 && start > 0 && !looking) load(start - Number($("size").value), true);
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

async function write(ids, action, label) {
  const answer = await source.decide(decisions.lines.length, ids, action, label);
  decisions.follow(answer);
  showProgress();
  refresh();
  if (answer.warning) tell(answer.warning, true);
}

function decide(action, label, all = rows.slice(chosen, chosen + 1)) {
  const row = rows[chosen];
  if (!row) return;
  const ids = all.flatMap((one) => one.ids);
  for (const one of all) Object.assign(one, { saving: true, failed: false });
  all.forEach(mark);
  trail.push(ids);
  const done = sent([barrier, ...all.map((one) => one.last)], async () => {
    try {
      await write(ids, action, { accept: row.suggested, keep: row.given, relabel: label }[action] ?? "");
      if (all.length > 1) tell(`Decided for all ${all.length}; u takes it back`);
    } catch (error) {
      trail.splice(trail.lastIndexOf(ids), 1);
      for (const one of all) one.failed = !one.ids.every((id) => decisions.own(id));
      tell(`Not saved: ${error.message}`, true);
    }
    for (const one of all) one.saving = false;
    (tab === "pairs" ? rows : all).forEach(mark); // an image may be in several pairs
    if (rows[chosen]) showPanel();
    $("next").disabled = looking || following() >= remaining();
  });
  for (const one of all) one.last = done;
  const next = rows.findIndex((other, k) => k > chosen && !all.includes(other));
  if (next > 0) select(next);
  else turnPage(1);
}

function undo(ids) {
  barrier = sent([settled()], async () => {
    const own = (numbers) => numbers.filter((number) => decisions.own(number));
    const last = own(ids ?? trail.findLast((others) => own(others).length) ?? decisions.last() ?? []);
    if (!last.length) return tell("There is nothing of yours to undo.");
    try {
      await write(last, "undo", "");
    } catch (error) {
      return tell(`Not undone: ${error.message}`, true);
    }
    const place = trail.findLastIndex((others) => others.includes(last[0]));
    if (place >= 0) {
      trail[place] = trail[place].filter((other) => !last.includes(other));
      if (!trail[place].length) trail.splice(place, 1);
    }
    tell(last.length > 1 ? `Undone: all ${last.length} images` : `Undone: image ${last[0]}`);
    rows.forEach(mark);
    const index = rows.findIndex((row) => row.ids.some((number) => last.includes(number)));
    if (index >= 0) select(index);
    else if (rows[chosen]) showPanel();
  });
}

const suggestion = () => rows[chosen]?.verdict === "outside" ? "outside" : "accept";
const accept = () => tab === "pairs" ? tell("Here 1 takes the first label, 2 the second, k keeps both.") : decide(suggestion());
const settle = (k) => tab === "pairs" && rows[chosen] && decide("relabel", rows[chosen].labels[k]);
const forAll = (action) => rows[chosen] && !looking && tab === "labels" && decide(action, undefined, alike(rows[chosen]));

// --- What the decisions say of all labels --------------------------------------------------------

let forecast, ranked = 0, asking, stale = false;
function refresh() {
  if (!source.forecast) return undefined;
  stale = true;
  asking ??= (async () => {
    while (stale) { // what is decided meanwhile is asked for once more
      stale = false;
      try {
        forecast = await source.forecast(ranked);
      } catch { break; } // a decision will tell that the server is gone
      if (forecast.order) {
        ranked = forecast.ranked;
        issues.rerank(forecast.order);
      }
      showForecast();
    }
    asking = undefined;
  })();
  return asking;
}

const undecidedLooks = () => issues.look.filter((row) => !decisions.on(row.id));
function endLook() {
  const left = undecidedLooks();
  if (left.length) {
    tell(`${left.length} of the sample ${left.length > 1 ? "are" : "is"} still undecided.`);
    select(rows.indexOf(left[0]));
    return false;
  }
  looking = false;
  tell("Thank you. Now the list, the most doubtful first.");
  return load(0);
}
function setLooking(on) {
  looking = on;
  load(0);
}

const tabs = Object.keys(TABS).filter((name) => name === "labels" || found[name].length);
function openTab(name) {
  tab = name;
  looking = false; // the look is offered again beside the list
  return load(0);
}
function makeTab(name) {
  const button = make("button", { type: "button", id: "tab-" + name, onclick: () => whenTurned(() => openTab(name)) },
    `${TABS[name]} `, make("span", { textContent: (found[name]?.length ?? boot.listed).toLocaleString("en") }));
  button.setAttribute("role", "tab");
  return button;
}

const many = (count) => Math.round(count).toLocaleString("en");
function ofHundred([, low, high]) {
  const [from, to] = [Math.floor(100 * low), Math.ceil(100 * high)];
  return from < 1 ? `at most ${to} of 100` : from === to ? `about ${to} of 100` : `between ${from} and ${to} of 100`;
}
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function showForecast() {
  const done = boot.look.length - undecidedLooks().length;
  $("guide-text").textContent = `First a look at ${boot.look.length} images, drawn over all scores: two minutes that show how many labels are wrong. ${done} done.`;
  $("first").hidden = looking || tab !== "labels" || done === boot.look.length;
  $("first").textContent = `Look at ${boot.look.length} (${done} done)`;
  if (!forecast) return;
  const { rate, sampled, precision, left, upcoming, looked, few, next, agreement } = forecast;
  $("insight").hidden = tab !== "labels";
  $("rate").textContent = rate ? `${capital(ofHundred(rate))} labels are wrong` : "Nobody knows yet how many labels are wrong";
  $("rate-source").textContent = sampled ? `by ${looked} decisions on a random sample` : rate ? "as the networks estimate it" : "";
  $("precision").textContent = precision ? `In the list: ${ofHundred(precision)}.` : "";
  $("left").textContent = left && sampled ? `Still undecided: about ${many(left[0])} wrong labels (${many(left[1])} to ${many(left[2])}).` : "";
  const stop = upcoming !== null && upcoming < few;
  $("upcoming").textContent = looking || upcoming === null ? "" : stop
    ? `A place to stop: the next ${next} of the list should hold fewer than ${Math.max(1, Math.round(few))} wrong labels.`
    : `The next ${next} of the list should hold about ${many(upcoming)} wrong labels.`;
  $("upcoming").classList.toggle("stop", stop);
  $("agreement").textContent = agreement.map((pair) => `${pair.first} and ${pair.second} agree on ${pair.same} of ${pair.both}`
    + (pair.kappa === null ? "" : ` (Cohen’s kappa ${pair.kappa.toFixed(2)})`)).join("; ");
  drawScale($("scale"), [["networks", "95 %", boot.rate], ["you", "95 %", sampled ? rate : null]]);
  drawCurve($("curve"), forecast);
}

function draw(tag, attributes, text = "") {
  const element = document.createElementNS("http:\u002f/www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// The share of wrong labels as the networks and as people see it, each with its interval and how
// often that is meant to hold.
function drawScale(svg, sources) {
  const known = sources.filter(([, , rate]) => rate);
  svg.toggleAttribute("hidden", !known.length);
  const most = Math.min(1, Math.max(0.1, ...known.map(([, , rate]) => Math.ceil(rate[2] * 10 + 0.2) / 10)));
  const x = (share) => 88 + 130 * Math.min(1, share / most), parts = [];
  for (const tick of [0, most / 2, most]) {
    parts.push(draw("line", { x1: x(tick), x2: x(tick), y1: 6, y2: 46, class: "tick" }));
    parts.push(draw("text", { x: x(tick), y: 60, "text-anchor": "middle" }, `${+(100 * tick).toFixed(1)} %`));
  }
  known.forEach(([name, often, rate], k) => {
    const y = 15 + 20 * k;
    parts.push(draw("text", { x: 80, y: y + 4, "text-anchor": "end" }, `${name}, ${often}`));
    parts.push(draw("line", { x1: x(rate[1]), x2: Math.max(x(rate[2]), x(rate[1]) + 2), y1: y, y2: y, class: "range " + name }));
    parts.push(draw("circle", { cx: x(rate[0]), cy: y, r: 4, class: name }));
  });
  svg.setAttribute("aria-label", known.map(([name, often, rate]) => `${name}: ${ofHundred(rate)} labels are wrong, in ${often} of the cases`).join("; "));
  svg.replaceChildren(...parts);
}

// How many wrong labels the next images hold, along what is left of the list.
function drawCurve(svg, { curve, few, next }) {
  svg.toggleAttribute("hidden", looking || curve.length < 2);
  if (curve.length < 2) return;
  const end = curve.at(-1)[0] || 1, most = Math.max(few * 2, ...curve.map(([, count]) => count));
  const x = (place) => 30 + 180 * place / end, y = (count) => 46 - 40 * count / most;
  const line = curve.map(([place, count]) => `${x(place).toFixed(1)},${y(count).toFixed(1)}`).join(" ");
  svg.setAttribute("aria-label", `Wrong labels expected in the next ${next} images: ${many(curve[0][1])} now, ${many(curve.at(-1)[1])} at the end of the list`);
  svg.replaceChildren(
    draw("polygon", { points: `${x(0)},46 ${line} ${x(end)},46`, class: "area" }),
    draw("polyline", { points: line, class: "curve" }),
    draw("line", { x1: 30, x2: 210, y1: y(few), y2: y(few), class: "few" }),
    draw("text", { x: 26, y: 11, "text-anchor": "end" }, many(most)),
    draw("text", { x: 26, y: 49, "text-anchor": "end" }, "0"),
    draw("text", { x: 30, y: 60 }, `wrong of the next ${next}, down the list`),
  );
}

// --- The list of classes ---------------------------------------------------------------------------

let matches = [], active = 0;
function offer() {
  const text = $("wanted").value.trim().toLowerCase();
  const first = boot.classes.filter((name) => name.toLowerCase().startsWith(text));
  const other = boot.classes.filter((name) => !name.toLowerCase().startsWith(text) && name.toLowerCase().includes(text));
  // An image that looks like no class may still be of the nearest one.
  const nearest = text ? [] : rows[chosen].labels ?? (rows[chosen].verdict === "outside" ? [rows[chosen].suggested] : []);
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
let choosing; // the images that the class is for
function choose(all = rows.slice(chosen, chosen + 1)) {
  if (!rows[chosen]) return;
  choosing = all;
  $("chooser-title").textContent = all.length > 1 ? `Which class are all ${all.length}?` : "Which class is it?";
  $("wanted").value = "";
  offer();
  $("chooser").showModal();
  $("wanted").focus();
}
function take(index) {
  $("chooser").close();
  const label = matches[index];
  if (label !== undefined) decide(!rows[chosen].images && label === rows[chosen].given ? "keep" : "relabel", label, choosing);
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

function showZoom(text, first, second) {
  picture($("largest"), first, "large", text);
  $("beside").hidden = second === undefined;
  if (second !== undefined) picture($("beside"), second, "large", text);
  $("caption").textContent = text;
}
function zoom(open = !$("zoom").open) {
  if (!open) return $("zoom").close();
  if (!rows[chosen] || $("zoom").open) return;
  showZoom(spoken(rows[chosen]), ...(rows[chosen].images ?? [rows[chosen]]).map(address));
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

const together = {
  a: () => forAll(suggestion()), k: () => forAll("keep"), n: () => forAll("outside"),
  o: () => rows[chosen] && !looking && tab === "labels" && choose(alike(rows[chosen])),
};
const once = {
  a: accept, k: () => decide("keep"), o: () => choose(), n: () => decide("outside"), 1: () => settle(0), 2: () => settle(1), u: () => undo(),
  z: () => zoom(), "?": help, t: () => tabs.length > 1 && openTab(tabs[(tabs.indexOf(tab) + 1) % tabs.length]),
};
const DECIDING = ["a", "k", "o", "n", "1", "2"];
const again = {
  ArrowRight: () => move(1), ArrowLeft: () => move(-1), ArrowDown: () => lines(1), ArrowUp: () => lines(-1),
  PageDown: () => turnPage(1), PageUp: () => turnPage(-1),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("chooser").open) return;
  if (event.target.matches("input, select")) return;
  if ($("help").open && event.key !== "?") return;
  const { key } = event;
  const letter = key.length === 1 ? key.toLowerCase() : key;
  const single = event.repeat ? undefined : event.shiftKey && together[letter] || once[letter];
  const act = single ?? again[key] ?? (key === "Enter" && event.target.matches(".card") ? () => zoom() : undefined);
  if (!act && !turning) return;
  if (act) event.preventDefault();
  whenTurned(() => { if ($("chooser").open) type(key); else act?.(); }, DECIDING.includes(letter));
});

Object.entries({
  accept, keep: () => decide("keep"), relabel: () => choose(), outside: () => decide("outside"), undo: () => undo(),
  "take-first": () => settle(0), "take-second": () => settle(1), retract: () => undo(rows[chosen]?.ids), look: () => zoom(true), zoom: () => zoom(false),
  "all-accept": together.a, "all-keep": together.k, "all-other": together.o, "all-outside": together.n,
  first: () => setLooking(true), skip: () => setLooking(false), helper: help, enough: help, back: () => turnPage(-1), next: () => turnPage(1),
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
$("insight").open = innerWidth > 760;
$("tabs").replaceChildren(...tabs.map(makeTab));
$("tabs").hidden = $("help-tabs").hidden = tabs.length < 2;
$("help-pairs").hidden = !found.pairs.length;
if (source instanceof Embedded) {
  $("without").hidden = false;
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
