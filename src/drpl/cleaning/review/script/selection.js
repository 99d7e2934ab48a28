// Several images at once: what is decided then is decided for all of them.
const picked = new Set(); // rows, also of other pages
let anchor = -1; // where a range begins
const targets = () => picked.size ? [...picked] : rows.slice(chosen, chosen + 1);

// What a list of options says of itself: those that are selected, or the chosen one if none is.
function showPicked() {
  rows.forEach((row, k) => $("card-" + row.id)?.setAttribute("aria-selected", String(picked.size ? picked.has(row) : k === chosen)));
  $("grid").classList.toggle("picking", picked.size > 0);
  $("picked").hidden = !picked.size;
  $("picked-text").textContent = `${picked.size.toLocaleString("en")} selected`;
  $("pick-all").hidden = picked.size >= matched.length;
  $("pick-all").textContent = `Select all ${matched.length.toLocaleString("en")}`;
  $("compare").hidden = picked.size !== 2;
}

function pick(some, on = true) {
  for (const row of some) if (on) picked.add(row); else picked.delete(row);
  showPicked();
  showPanel();
}
const pickAll = () => pick(matched);
const unpick = () => pick([...picked], false);

function toggle(index) {
  anchor = index;
  select(index);
  pick([rows[index]], !picked.has(rows[index]));
}

// From where the selection began to another image, both included.
function pickRange(index) {
  if (anchor < 0) anchor = chosen;
  const [from, to] = [Math.min(anchor, index), Math.max(anchor, index)];
  select(index);
  pick(rows.slice(from, to + 1));
}

function click(event, index) {
  if (event.shiftKey) return pickRange(index);
  if (event.ctrlKey || event.metaKey) return toggle(index);
  anchor = index;
  select(index);
  if (picked.size) unpick();
}

// Shift with an arrow: the selection grows by the images on the way.
function stretch(step) {
  if (anchor < 0 || !picked.size) anchor = chosen;
  step();
  pickRange(chosen);
}

// All of the page; asked once more, all that pass the filters.
const pickPage = () => pick(rows.every((row) => picked.has(row)) ? matched : rows);

// Two images side by side.
function compare() {
  if (picked.size !== 2) return tell("Select two images to compare: with x, or by Ctrl and a click.");
  const [first, second] = [...picked].map((row) => row.images?.[0] ?? row);
  showBeside([...picked].map(spoken).join(" | "), address(first), address(second));
}
