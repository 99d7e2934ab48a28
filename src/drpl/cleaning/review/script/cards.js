// The grid of cards, and what is said above it.
const wanted = (row) => row.verdict === "outside" ? "not any class" : row.suggested;
const suggestion = (row) => row.verdict === "outside" ? "outside" : "accept";
const percent = (share) => share === null ? "unknown" : (share > 0.995 && share < 1 ? Math.min(99.9, 100 * share).toFixed(1) : (100 * share).toFixed(0)) + "\u00a0%";
const risk = ({ p_noisy, ends: [low, high] }) => typeof low === "number" && typeof high === "number"
  ? Math.round(100 * low) === Math.round(100 * high) ? percent(high) : `${Math.round(100 * low)} to ${percent(high)}`
  : percent(p_noisy);

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
const labels = (row) => wanted(row) === row.given ? row.given : `${row.given} → ${wanted(row)}`;
const spoken = (row) => row.images ? `Near-duplicates. ${row.images.map(spokenOne).join("; ")}`
  : `Image ${row.id}: given ${row.given}, suggested ${wanted(row)}`;

// What stands below the image of a card: a line on labels, and a small one.
function describe(row) {
  if (row.images) {
    const same = row.labels[0] === row.labels[1], test = row.images.some((image) => image.part === "test");
    return [same ? `both ${row.labels[0]}` : row.labels.join(" ≠ "), test ? "with a test image: not decided" : `${row.kind} · ${percent(row.similarity)} alike`];
  }
  if (tab === "outliers") return [`${row.given}; nearest: ${row.suggested}`, `outlier score ${row.score.toFixed(2)}`];
  return [labels(row), looking ? "" : `${risk(row)} · ${row.verdict || UNSUSPECTED}`];
}

function card(row, index) {
  const item = make("li", { className: "card", id: "card-" + row.id, tabIndex: -1 });
  item.setAttribute("role", "option");
  const shown = (row.images ?? [row]).map((one) =>
    picture(make("img", { loading: "lazy", decoding: "async", width: 256, height: 256 }), address(one), "small", ""));
  const [line, more] = describe(row);
  const box = make("button", { type: "button", className: "pick", tabIndex: -1, title: "Select, with others (x)" });
  box.setAttribute("aria-hidden", "true"); // the card says whether it is selected
  item.append(make("div", { className: "shown" }, ...shown), make("p", { textContent: line }),
    make("small", { textContent: more, title: row.path || more }), make("div", { className: "mark" }), box);
  item.onclick = (event) => event.target === box ? toggle(index) : click(event, index);
  item.ondblclick = (event) => event.target !== box && zoom(true);
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

const HEADS = {
  class: (row) => `${row.given} · ${row.verdict || UNSUSPECTED}`,
  alike: (row) => row.mates.length > 1 ? `${row.mates.length} look alike: ${row.given} → ${wanted(row)}${"\u200b".repeat(row.group % 2)}` : "alone",
};

function showGrid() {
  const items = [];
  let group = "";
  rows.forEach((row, index) => {
    const title = looking || !isFiltered() ? "" : HEADS[$("sort").value]?.(row) ?? "";
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
  $("filters").hidden = looking || !isFiltered();
  for (const item of $("tabs").children) item.setAttribute("aria-selected", String(item.id === "tab-" + tab));
  $("where").textContent = looking ? `a sample of ${matched.length}` : rows.length ? `${many(start + 1)}–${many(start + rows.length)} of ${many(matched.length)}` : "0 of 0";
  $("back").disabled = start === 0;
  $("next").disabled = looking || following() >= remaining();
  showPicked();
}

function showProgress() {
  const all = inTab(), decided = all.filter(isDecided).length;
  $("bar").max = Math.max(1, all.length);
  $("bar").value = decided;
  $("tally").textContent = `${many(decided)} of ${many(all.length)} decided`;
}

function showFilters() {
  if (!isFiltered()) return;
  const counts = images.count(inTab());
  const fill = (id, options, kind, title = (name) => name) => {
    const select = $(id), value = select.value;
    // Every state can be asked for: decisions since the page was loaded may have brought it about.
    const shown = options.filter((name) => counts[kind][name] || name === value || kind === "state")
      .map((name) => make("option", { value: name, textContent: `${title(name)} (${counts[kind][name] || 0})` }));
    select.replaceChildren(make("option", { value: "", textContent: "all" }), ...shown);
    select.value = value;
  };
  fill("class", boot.classes, "given");
  fill("suggested", boot.classes, "suggested");
  fill("verdict", [...VERDICTS, UNSUSPECTED], "verdict");
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
