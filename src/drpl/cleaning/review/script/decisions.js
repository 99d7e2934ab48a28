// What people decided. Everyone has a decision on an image, the last that was not undone. Of several
// people's, the latest holds; while they give different labels the image is disputed.
class Decisions {
  lines = [];
  stacks = new Map(); // of each image, everyone's: name -> places of lines in the log
  follow({ start, lines }) {
    for (const line of lines.slice(this.lines.length - start)) { // the others are known
      const people = this.stacks.get(line.id) ?? new Map();
      if (line.action !== "undo") people.set(line.who, [...people.get(line.who) ?? [], this.lines.length]);
      else if (people.size) {
        const who = people.has(line.who) ? line.who : this.lines[this.latest(people)].who;
        people.get(who).pop();
        if (!people.get(who).length) people.delete(who);
      }
      this.stacks.set(line.id, people);
      this.lines.push(line);
    }
  }
  latest(people) { return Math.max(...[...people.values()].map((stack) => stack.at(-1))); }
  everyone(id) { return [...this.stacks.get(id)?.values() ?? []].map((stack) => this.lines[stack.at(-1)]); }
  on(id) {
    const people = this.stacks.get(id);
    return people?.size ? this.lines[this.latest(people)] : undefined;
  }
  place(id) { // in the log; -1: nobody decided
    const people = this.stacks.get(id);
    return people?.size ? this.latest(people) : -1;
  }
  own(id) { return this.lines[this.stacks.get(id)?.get(me())?.at(-1)]; }
  disputed(id) { return new Set(this.everyone(id).map((line) => line.label)).size > 1; }
  // One's decisions that hold, the last one first: lists of lines, several in one if they were made at once.
  *steps() {
    const number = (line) => /for (\d+) (?:alike )?at once$/.exec(line.why ?? "")?.[1];
    let step = [];
    for (let k = this.lines.length - 1; k >= 0; k--) {
      const line = this.lines[k], [last] = step;
      if (this.own(line.id) !== line) continue;
      const together = last && number(line) && line.time === last.time && number(line) === number(last);
      if (last && !together) {
        yield step;
        step = [];
      }
      step.push(line);
    }
    if (step.length) yield step;
  }
  // The images of one's last decision.
  last() { return this.steps().next().value?.map((line) => line.id).reverse(); }
}

const decisions = new Decisions();
const STATES = {
  undecided: "undecided", unseen: "not decided by you", disagreed: "disagreed", decided: "decided", accept: "accepted", keep: "kept", relabel: "other class", outside: "not any class",
};
const isDecided = (row) => row.ids.every((id) => decisions.on(id));
function meant(decision) {
  return { accept: "✓ ", keep: "= ", relabel: "→ ", outside: "✕ " }[decision.action]
    + (decision.action === "outside" ? "not any class" : decision.label);
}
