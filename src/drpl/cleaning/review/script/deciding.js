// Deciding, and taking decisions back.

// What is decided goes out one after the other, in the order of the keys: the log has it in that
// order, and so do the history and what undo takes back.
const trail = []; // the images that were decided on here, the last one last
const undone = []; // lines that were taken back here
let queue = Promise.resolve();
const settled = () => queue;
const send = (work) => { queue = queue.then(work); };

async function write(ids, action, label) {
  const answer = await source.decide(decisions.lines.length, ids, action, label);
  decisions.follow(answer);
  showProgress();
  refresh();
  if (answer.warning) tell(answer.warning, true);
}

function decide(action, label = "", all = targets()) {
  if (!all.length) return;
  const ids = all.flatMap((one) => one.ids), decided = new Set(all);
  for (const one of all) Object.assign(one, { saving: true, failed: false });
  all.forEach(mark);
  trail.push(ids);
  undone.length = 0;
  send(async () => {
    try {
      await write(ids, action, label);
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
  picked.clear();
  anchor = -1;
  if (!decided.has(rows[chosen])) return select(chosen);
  const next = rows.findIndex((other, k) => k > chosen && !decided.has(other));
  if (next > 0) select(next);
  else turnPage(1);
}

// Takes back one's decisions on images, or the last one; that on several as a whole.
function undo(ids) {
  send(async () => {
    const own = (numbers) => numbers.filter((number) => decisions.own(number));
    const last = own(ids ?? trail.findLast((others) => own(others).length) ?? decisions.last() ?? []);
    if (!last.length) return tell("There is nothing of yours to undo.");
    const lines = last.map((number) => decisions.own(number));
    try {
      await write(last, "undo", "");
    } catch (error) {
      return tell(`Not undone: ${error.message}`, true);
    }
    undone.push(lines);
    forget(last);
    tell(last.length > 1 ? `Undone: all ${last.length} images` : `Undone: image ${last[0]}`);
    showAgain(last);
  });
}

// Decides again what was taken back last.
function redo() {
  send(async () => {
    const lines = undone.pop();
    if (!lines) return tell("There is nothing to decide again.");
    try {
      for (const same of alikeLines(lines)) await write(same.map((line) => line.id), same[0].action, same[0].label);
    } catch (error) {
      return tell(`Not decided: ${error.message}`, true);
    }
    const ids = lines.map((line) => line.id);
    trail.push(ids);
    tell(ids.length > 1 ? `Decided again: all ${ids.length} images` : `Decided again: image ${ids[0]}`);
    showAgain(ids);
  });
}

// Lines by what they decide: one request does for each.
function alikeLines(lines) {
  const groups = new Map();
  for (const line of lines) {
    const key = JSON.stringify([line.action, line.action === "relabel" && line.label]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(line);
  }
  return groups.values();
}

function forget(ids) {
  const taken = new Set(ids), place = trail.findLastIndex((others) => others.includes(ids[0]));
  if (place < 0) return;
  trail[place] = trail[place].filter((other) => !taken.has(other));
  if (!trail[place].length) trail.splice(place, 1);
}

// Marks what was changed, and goes to the first of it that is on this page.
function showAgain(ids) {
  const changed = new Set(ids);
  rows.forEach(mark);
  const index = rows.findIndex((row) => row.ids.some((number) => changed.has(number)));
  if (index >= 0) select(index);
  else if (rows[chosen]) showPanel();
}

function accept() {
  if (tab === "pairs") return tell("Here 1 takes the first label, 2 the second, k keeps both.");
  decide(tab === "outliers" ? "outside" : "follow");
}
const forAll = (action) => rows[chosen] && !looking && isFiltered() && decide(action, "", alike(rows[chosen]));

// Of two near-duplicates, the label of one for both; of several pairs, one after the other.
function settle(k) {
  if (tab !== "pairs" || !rows[chosen]) return;
  for (const row of targets()) decide("relabel", row.labels[k], [row]);
}
