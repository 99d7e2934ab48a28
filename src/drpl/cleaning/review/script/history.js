// One's own decisions, the latest first, each of which can be taken back.
const REMEMBERED = 100;

function showHistory() {
  const steps = [];
  for (const step of decisions.steps()) {
    steps.push(step);
    if (steps.length === REMEMBERED) break;
  }
  $("past-list").replaceChildren(...steps.map(recall));
  $("no-past").hidden = steps.length > 0;
}

function recall(step) {
  const [line] = step, kinds = new Set(step.map(meant));
  const text = step.length > 1 ? `${step.length} images` : images.byId.get(line.id)?.path || `image ${line.id}`;
  const button = make("button", { type: "button", textContent: "Undo", onclick: () => { undo(step.map((one) => one.id)); settled().then(showHistory); } });
  button.setAttribute("aria-label", `Undo ${meant(line)}, ${text}`);
  return make("li", {}, picture(make("img", { loading: "lazy" }), line.id, "small", ""),
    make("span", {}, make("b", { textContent: [...kinds].slice(0, 3).join(", ") + (kinds.size > 3 ? ", …" : "") }),
      make("small", { textContent: `${text} · ${new Date(line.time).toLocaleString()}` })), button);
}

function recollect() {
  if ($("history").open) return $("history").close();
  settled().then(showHistory);
  $("history").showModal();
}
