// Moving: pages, and the chosen image on a page.

// Images that no longer match the filter leave the list when the next page is loaded.
const matching = () => rows.filter((row) => !isFiltered() || images.inState(row, $("state").value)).length;
const following = () => start + matching();
const remaining = () => matched.length - rows.length + matching();

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

// What the filters, the search and the order ask for.
const query = () => ({
  ...Object.fromEntries(filters.map((name) => [name, $(name).value])),
  search: $("search").value, turned: $("turn").getAttribute("aria-pressed") === "true",
});

// Tables are asked for when they are needed, and once.
async function fetchTables() {
  const [issues, samples, log] = await Promise.all([
    images ? undefined : source.issues(),
    tab === "every" && !images?.every ? source.samples() : undefined,
    source.decisions(decisions.lines.length),
  ]);
  decisions.follow(log);
  if (issues) images = new Images(issues);
  if (samples) images.addRest(samples);
  if (!issues) return;
  await refresh(); // an order that was learnt before holds from the first page on
  looking = undecidedLooks().length > 0;
}

// Gives false where there is no new page.
let loading = 0;
async function fetchPage(from, last) {
  const turn = ++loading;
  await settled();
  try {
    await fetchTables();
  } catch (error) {
    tell(error.message, true);
    return false;
  }
  if (turn !== loading) return true; // another page was asked for meanwhile
  const asked = query();
  matched = found[tab] ?? (looking ? images.look : images.select(asked, inTab()));
  const size = looking ? matched.length : Number(asked.size);
  start = Math.max(0, from);
  if (start >= matched.length && start > 0) return fetchPage(start - size, true);
  rows = matched.slice(start, start + size);
  for (const row of rows) {
    row.failed = false;
    if (tab === "labels" && !looking) images.shown.add(row.id);
  }
  showProgress();
  showFilters();
  showGrid();
  showForecast();
  select(last ? rows.length - 1 : looking || !isFiltered() ? rows.findIndex((row) => !isDecided(row)) : 0);
  return true;
}

function select(index) {
  comparing = false;
  const before = rows[chosen] && $("card-" + rows[chosen].id);
  before?.classList.remove("chosen");
  if (before) before.tabIndex = -1;
  chosen = Math.min(Math.max(index, 0), rows.length - 1);
  const item = rows[chosen] && $("card-" + rows[chosen].id);
  if (item) {
    item.classList.add("chosen");
    item.tabIndex = 0;
    if (top === window || document.hasFocus()) { // inside a report nothing moves before its reader comes
      if (!$("zoom").open && !document.activeElement.matches("#filters *")) item.focus({ preventScroll: true });
      item.scrollIntoView({ block: "nearest" });
    }
  }
  showPicked();
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
