// What the decisions say of all labels.

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
        images.rerank(forecast.order);
      }
      showForecast();
    }
    asking = undefined;
  })();
  return asking;
}

const undecidedLooks = () => images.look.filter((row) => !decisions.on(row.id));
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

function openTab(name) {
  tab = name;
  picked.clear();
  looking = false; // the look is offered again beside the list
  return load(0);
}
function makeTab(name) {
  const button = make("button", { type: "button", id: "tab-" + name, onclick: () => whenTurned(() => openTab(name)) },
    `${TABS[name]} `, make("span", { textContent: (found[name]?.length ?? (name === "every" ? boot.samples : boot.listed)).toLocaleString("en") }));
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
  $("first").hidden = looking || !isFiltered() || done === boot.look.length;
  $("first").textContent = `Look at ${boot.look.length} (${done} done)`;
  if (!forecast) return;
  const { rate, sampled, precision, left, upcoming, looked, few, next, agreement } = forecast;
  $("insight").hidden = !isFiltered();
  $("rate").textContent = rate ? `${capital(ofHundred(rate))} labels are wrong` : "It is not known yet how many labels are wrong";
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
