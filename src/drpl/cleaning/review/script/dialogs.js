// The list of classes, the zoom and the help.

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
function choose(all = targets()) {
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
  if (label !== undefined) decide("relabel", label, choosing); // one that is given is kept
}
$("wanted").oninput = offer;
$("wanted").onkeydown = (event) => {
  if (event.key === "ArrowDown") point(active + 1);
  else if (event.key === "ArrowUp") point(active - 1);
  else if (event.key === "Enter") take(active);
  else return;
  event.preventDefault();
};

function showZoom(text, first, second) {
  picture($("largest"), first, "large", text);
  $("beside").hidden = second === undefined;
  if (second !== undefined) picture($("beside"), second, "large", text);
  $("caption").textContent = text;
}
// Two images, until another one is chosen.
let comparing = false;
function showBeside(text, first, second) {
  comparing = true;
  showZoom(text, first, second);
  if (!$("zoom").open) $("zoom").showModal();
}
function zoom(open = !$("zoom").open) {
  if (!open) return $("zoom").close();
  if (!rows[chosen] || $("zoom").open) return;
  showZoom(spoken(rows[chosen]), ...(rows[chosen].images ?? [rows[chosen]]).map(address));
  $("zoom").showModal();
}
function help() { if ($("help").open) $("help").close(); else $("help").showModal(); }
for (const id of ["zoom", "chooser", "history"]) $(id).addEventListener("close", () => select(chosen));
