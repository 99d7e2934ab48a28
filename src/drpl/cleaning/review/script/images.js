// The images: which there are, in which order, and which pass the filters.
const FINDINGS = {
  mislabelled: "mislabelled: looks like another class",
  outside: "outside: looks like none of the classes",
  ambiguous: "ambiguous: could be either",
};
const VERDICTS = Object.keys(FINDINGS);
const UNSUSPECTED = "not suspected";

const compareTexts = (a, b) => a < b ? -1 : a > b ? 1 : 0;
const fileKey = (row) => row.key ??= row.path.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0")); // 9.jpg is before 10.jpg
const kind = (row) => [...VERDICTS, ""].indexOf(row.verdict);
const most = (key) => (a, b) => (b[key] ?? -1) - (a[key] ?? -1);
// What the images can be sorted by; the button beside it turns the order round.
const ORDERS = {
  worst: () => 0,
  risk: most("p_noisy"),
  confidence: most("confidence"),
  outlier: most("outlier"),
  class: (a, b) => a.rank - b.rank || kind(a) - kind(b),
  suggested: (a, b) => a.other - b.other,
  verdict: (a, b) => kind(a) - kind(b),
  alike: (a, b) => b.mates.length - a.mates.length || a.group - b.group,
  file: (a, b) => compareTexts(fileKey(a), fileKey(b)) || a.id - b.id,
  id: (a, b) => a.id - b.id,
  decision: (a, b) => compareTexts(decisions.on(a.id)?.action ?? "", decisions.on(b.id)?.action ?? ""),
  newest: (a, b) => decisions.place(b.id) - decisions.place(a.id),
};
const MOVING = ["decision", "newest"]; // orders that every decision changes

class Images {
  constructor(table) {
    this.byId = new Map();
    this.listed = this.add(table).slice(0, boot.listed); // behind them: samples to look at that are no issues
    const groups = new Map();
    for (const row of this.listed) {
      if (row.group < 0) continue;
      if (!groups.has(row.group)) groups.set(row.group, []);
      row.mates = groups.get(row.group);
      row.mates.push(row);
    }
    this.look = boot.look.map((id) => this.byId.get(id));
    this.shown = new Set(); // ids that were on a page of the list
    this.sorted = new WeakMap(); // of a list: its orders
  }
  // Rows of a table, of which some may be known.
  add({ columns, index, data }) {
    const place = Object.fromEntries(columns.map((name, k) => [name, k]));
    return data.map((cells, k) => {
      const known = this.byId.get(index[k]);
      if (known) return known;
      const row = {
        id: index[k],
        ids: [index[k]], // the images that a decision on this card is on
        rank: cells[place.given],
        other: cells[place.suggested],
        given: boot.classes[cells[place.given]],
        suggested: boot.classes[cells[place.suggested]],
        verdict: cells[place.verdict] ?? "",
        path: cells[place.path],
        p_noisy: cells[place.p_noisy],
        ends: [cells[place.p_low], cells[place.p_high]],
        outlier: cells[place.outlier_score],
        group: cells[place.group] ?? -1,
        confidence: cells[place.confidence],
        near: "near_given" in place ? { given: cells[place.near_given], suggested: cells[place.near_suggested] } : undefined,
      };
      row.mates = [row];
      this.byId.set(row.id, row);
      return row;
    });
  }
  // All images: those of the list come first, then the others, the most doubtful first.
  addRest(table) {
    const listed = new Set(this.listed);
    this.rest = this.add(table).filter((row) => !listed.has(row)).sort(most("p_noisy"));
    this.every = [...this.listed, ...this.rest];
  }
  // Sort what nobody has seen yet. What was shown keeps its place, what was decided elsewhere goes to the end.
  rerank(order) {
    const unseen = order.filter((id) => !this.shown.has(id)), moved = new Set(unseen);
    const others = this.listed.filter((row) => !moved.has(row.id));
    this.listed = [
      ...others.filter((row) => this.shown.has(row.id)),
      ...unseen.map((id) => this.byId.get(id)).filter(Boolean),
      ...others.filter((row) => !this.shown.has(row.id)),
    ];
    if (this.rest) this.every = [...this.listed, ...this.rest];
  }
  inState(row, state) {
    const action = decisions.on(row.id)?.action;
    if (state === "unseen") return !decisions.own(row.id);
    if (state === "disagreed") return decisions.disputed(row.id);
    return !state || state === (action ? "decided" : "undecided") || state === action;
  }
  sort(list, order) {
    const made = this.sorted.get(list) ?? {};
    this.sorted.set(list, made);
    if (MOVING.includes(order)) delete made[order];
    return made[order] ??= order === "worst" ? list : [...list].sort(ORDERS[order]);
  }
  select({ class: given, suggested, verdict, state, search, sort, turned }, list = this.listed) {
    const text = (search ?? "").trim().toLowerCase(), number = /^\d+$/.test(text) ? Number(text) : -1;
    const found = this.sort(list, sort).filter((row) => (!given || row.given === given) && (!suggested || row.suggested === suggested)
      && (!verdict || (row.verdict || UNSUSPECTED) === verdict)
      && (!text || row.id === number || (row.lower ??= row.path.toLowerCase()).includes(text)) && this.inState(row, state));
    return turned ? found.reverse() : found;
  }
  count(list = this.listed) {
    const counts = { given: {}, suggested: {}, verdict: {}, state: { undecided: 0, decided: 0 } };
    const several = decisions.lines.some((line) => line.who !== me());
    const add = (kind, name) => { counts[kind][name] = (counts[kind][name] || 0) + 1; };
    for (const row of list) {
      const action = decisions.on(row.id)?.action;
      add("given", row.given);
      add("suggested", row.suggested);
      add("verdict", row.verdict || UNSUSPECTED);
      add("state", action ? "decided" : "undecided");
      if (action) add("state", action);
      if (several) for (const state of ["unseen", "disagreed"]) if (this.inState(row, state)) add("state", state);
    }
    return counts;
  }
}

// Two near-duplicates. What is of the test part is shown, but decisions are on training images only.
function pair(row, k) {
  const sides = ["first", "second"].map((side) => Object.fromEntries(
    ["part", "id", "path", "label", "p_noisy"].map((name) => [name, row[`${side}_${name}`]])));
  const trained = sides.filter((image) => image.part === "train");
  const made = { id: "pair-" + k, ids: trained.map((image) => image.id), images: sides, similarity: row.similarity, kind: row.kind };
  return Object.assign(made, { labels: sides.map((image) => image.label), given: trained[0].label, mates: [made] });
}

function outlier(row) {
  const made = { id: row.id, ids: [row.id], path: row.path, given: row.given_label, suggested: row.nearest_label, score: row.outlier_score };
  return Object.assign(made, { verdict: "outside", p_noisy: row.p_noisy, ends: [null, null], confidence: null, mates: [made] });
}

// --- What is shown now ------------------------------------------------------------------------------

const TABS = { labels: "Suspicious", every: "All images", pairs: "Near-duplicates", outliers: "Outliers" };
const found = { pairs: boot.found.pairs.map(pair), outliers: boot.found.outliers.map(outlier) };
const filters = ["class", "suggested", "verdict", "state", "sort", "size"];
const tabs = Object.keys(TABS).filter((name) => name === "labels" || (name === "every" ? source.samples : found[name].length));
let images, rows = [], matched = [], start = 0, chosen = -1;
let tab = "labels";
let looking = boot.look.length > 0; // at the sample that shows how many labels are wrong
const isFiltered = () => tab === "labels" || tab === "every"; // the other tabs are short
const inTab = () => found[tab] ?? (tab === "every" && images.every || images.listed);
