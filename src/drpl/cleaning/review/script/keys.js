// Keys and buttons; then the first page.

// What was typed for the list of classes before it could open.
function type(key) {
  if (key === "Enter") return take(active);
  if (key.length > 1) return;
  $("wanted").value += key;
  offer();
}

const together = {
  a: () => forAll("follow"), k: () => forAll("keep"), n: () => forAll("outside"),
  o: () => rows[chosen] && !looking && isFiltered() && choose(alike(rows[chosen])),
  u: () => redo(),
};
const once = {
  x: () => rows[chosen] && toggle(chosen), c: compare, h: recollect, "/": () => $("search").focus(), Escape: unpick,
  a: accept, k: () => decide("keep"), o: () => choose(), n: () => decide("outside"), 1: () => settle(0), 2: () => settle(1), u: () => undo(),
  z: () => zoom(), "?": help, t: () => tabs.length > 1 && openTab(tabs[(tabs.indexOf(tab) + 1) % tabs.length]),
};
const DECIDING = ["a", "k", "o", "n", "1", "2"];
const again = {
  ArrowRight: () => move(1), ArrowLeft: () => move(-1), ArrowDown: () => lines(1), ArrowUp: () => lines(-1),
  PageDown: () => turnPage(1), PageUp: () => turnPage(-1),
};
const withShift = Object.fromEntries(Object.entries(again).filter(([key]) => key.startsWith("Arrow"))
  .map(([key, step]) => [key, () => rows[chosen] && stretch(step)]));
const onCard = { Enter: () => zoom(), " ": once.x };
const withControl = { a: pickPage, z: () => undo(), y: () => redo() };

// What a key does; nothing where it belongs to a field, a dialog or the browser.
function meaning({ key, ctrlKey, metaKey, altKey, shiftKey, repeat, target }) {
  if (altKey || target.matches("input, select")) return undefined;
  if ($("help").open && key !== "?" || $("history").open && key !== "h") return undefined;
  const letter = key.length === 1 ? key.toLowerCase() : key;
  if (ctrlKey || metaKey) return repeat ? undefined : shiftKey && letter === "z" ? redo : withControl[letter];
  return (repeat ? undefined : shiftKey && together[letter] || once[letter])
    ?? (shiftKey ? withShift[key] : undefined) ?? again[key] ?? (target.matches(".card") ? onCard[key] : undefined);
}

document.addEventListener("keydown", (event) => {
  if ($("chooser").open) return;
  const act = meaning(event), { key } = event, letter = key.toLowerCase();
  if (!act && (!turning || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select"))) return;
  if (key === "Escape" && document.querySelector("dialog[open]")) return; // the browser closes it
  if (act) event.preventDefault();
  whenTurned(() => { if ($("chooser").open) type(key); else act?.(); }, DECIDING.includes(letter) && !event.ctrlKey && !event.metaKey);
});

Object.entries({
  accept, keep: () => decide("keep"), relabel: () => choose(), outside: () => decide("outside"), undo: () => undo(),
  "take-first": () => settle(0), "take-second": () => settle(1), retract: () => undo(targets().flatMap((row) => row.ids)), look: () => zoom(true), zoom: () => zoom(false),
  "all-accept": together.a, "all-keep": together.k, "all-other": together.o, "all-outside": together.n,
  "pick-all": pickAll, unpick, compare, past: recollect, forgotten: recollect,
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
    ask();
  };
}

// Another list: what was selected in the one before is selected no more.
function ask() {
  picked.clear();
  return load(0);
}
$("turn").onclick = () => {
  $("turn").setAttribute("aria-pressed", String($("turn").getAttribute("aria-pressed") !== "true"));
  ask();
};
let typing;
$("search").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(ask, 120);
};
$("search").onkeydown = ({ key }) => {
  if (key !== "Enter" && key !== "Escape") return;
  if (key === "Escape") $("search").value = "";
  clearTimeout(typing);
  $("search").blur();
  ask();
};
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
