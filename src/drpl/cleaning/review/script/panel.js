// What is beside the grid: the chosen image, what can be decided on it, and what it may be compared with.
function showPanel() {
  const row = rows[chosen];
  $("panel").hidden = !row;
  if (!row) return;
  $("panel").classList.toggle("pairs", tab === "pairs");
  for (const id of ["look", "facts"]) $(id).hidden = tab === "pairs";
  $("nears").hidden = !row.near;
  for (const id of ["both", "untouched"]) $(id).hidden = tab !== "pairs";
  showAlike(row);
  if (tab === "pairs") showPair(row);
  else showFacts(row);
  if (picked.size) showButtonsForAll();
  const made = row.ids.flatMap((id) => decisions.everyone(id));
  $("stands").hidden = !made.length;
  const own = targets().filter((one) => one.ids.some((id) => decisions.own(id)));
  $("retract").hidden = !own.length;
  $("retract").textContent = own.length > 1 ? `Undo these ${own.length}` : "Undo this one";
  $("stands").dataset.state = row.ids.some((id) => decisions.disputed(id)) ? "disagreed" : isDecided(row) ? outcome(row.ids.map((id) => decisions.on(id))) : "";
  $("stands").textContent = made
    .map((line) => `${row.images ? `image ${line.id}: ` : ""}${meant(line)} — ${line.who}, ${new Date(line.time).toLocaleString()}`).join("\n");
  if (row !== pictured) showPictures(row);
}

function showFacts(row) {
  $("given").textContent = looking ? row.given : `${row.given} (${risk(row)} likely wrong)`;
  $("proposal-title").textContent = tab === "outliers" ? "Nearest" : "Suggested";
  $("proposal").textContent = tab === "outliers" ? row.suggested : row.verdict === "outside"
    ? `not any class (nearest: ${row.suggested}, ${percent(row.confidence)})` : `${row.suggested} (${percent(row.confidence)})`;
  $("finding").textContent = tab === "outliers" ? `what lies near it is far, or of many classes (score ${row.score.toFixed(2)} of 1)`
    : FINDINGS[row.verdict] ?? UNSUSPECTED;
  for (const id of ["finding", "finding-title"]) $(id).hidden = looking;
  $("path").textContent = row.path || `image ${row.id}`;
  showButtons({ accept: isFiltered() && wanted(row) !== row.given && ["a", `Accept: ${wanted(row)}`], keep: ["k", `Keep: ${row.given}`], relabel: ["o", "Other class …"], outside: ["n", "Not any class"] });
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

// The same for all that are selected.
function showButtonsForAll() {
  const count = picked.size === 1 ? "the selected one" : `all ${picked.size}`, pairs = tab === "pairs";
  showButtons({
    accept: isFiltered() && ["a", `Accept what is suggested: ${count}`], keep: ["k", `Keep the labels: ${count}`],
    relabel: ["o", `Other class for ${count} …`], outside: ["n", `Not any class: ${count}`],
    "take-first": pairs && ["1", `First label: ${count}`], "take-second": pairs && ["2", `Second label: ${count}`],
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
  const all = looking || picked.size ? [row] : alike(row);
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
  $("large").removeAttribute("src"); // or the image before, if it comes now, would stand under these words
  for (const id of ["near_given", "near_suggested", "both"]) $(id).replaceChildren();
  $("near-given-title").textContent = `Likely ${row.given}`;
  $("near-suggested-title").textContent = `Likely ${row.suggested}`;
  $("other").hidden = row.suggested === row.given;
  const hurry = performance.now() - moved < 200;
  moved = performance.now();
  clearTimeout(resting);
  resting = setTimeout(() => {
    if ($("zoom").open && !comparing) showZoom(spoken(row), ...(row.images ?? [row]).map(address));
    if (row.images) return $("both").replaceChildren(...row.images.map(side));
    picture($("large"), row.id, "large", spoken(row));
    if (row.near) for (const kind of ["given", "suggested"]) near("near_" + kind, row, row[kind], row.near[kind].split(" ").filter(Boolean));
  }, hurry ? 150 : 0);
}

// One of two near-duplicates, with what is known of it.
function side(image, k) {
  const button = make("button", { type: "button", onclick: () => zoom(true) }, picture(make("img"), address(image), "large", spokenOne(image)));
  const doubt = image.part === "test" ? "test image: not decided here" : `${percent(image.p_noisy)} likely wrong`;
  return make("figure", {}, button, make("figcaption", {},
    make("b", { textContent: `${k + 1}: ${image.label}` }), make("span", { textContent: doubt }), make("small", { textContent: image.path || `${image.part} image ${image.id}` })));
}

// Images that are likely of a class; one that is clicked is shown beside the chosen one.
function near(place, row, name, ids) {
  const buttons = ids.map((id) => {
    const text = `Image ${id}, likely ${name}`, compared = `${spoken(row)} | ${text}`;
    const button = make("button", { type: "button", onclick: () => showBeside(compared, row.id, id) });
    button.setAttribute("aria-label", `Compare with image ${id}, likely ${name}`);
    button.append(picture(make("img", { loading: "lazy" }), id, "small", text));
    return button;
  });
  $(place).replaceChildren(...(ids.length ? buttons : [make("span", { textContent: "no clean image to compare with" })]));
}
