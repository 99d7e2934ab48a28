// Where images come from and decisions go: a server, or this very page.
"use strict";
const boot = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const me = () => $("who").value.trim() || boot.who;

// Both sources give tables of images, and lines of the log of decisions: { start, lines }, `start`
// being the place of the first one in the log.
class Server {
  async ask(path, content) {
    const options = content === undefined ? {} : {
      method: "POST",
      priority: "high",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(content),
    };
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("the server does not answer; start drpl review again and open its new address");
    }
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    let reason = text;
    try { reason = JSON.parse(text).error; } catch { /* it was a plain sentence */ }
    throw new Error(reason);
  }
  issues() { return this.ask("/api/issues"); }
  samples() { return this.ask("/api/samples"); }
  decisions(since) { return this.ask("/api/decisions?since=" + since); }
  decide(since, ids, action, label) { return this.ask("/api/decide", { since, ids, action, label }); }
  forecast(ranked) { return this.ask("/api/forecast?ranked=" + ranked); }
  image(id, size) { return `/image/${size}/${id}`; }
}

class Embedded {
  constructor() {
    this.place = "drpl-review-" + boot.key;
    this.own = []; // what was decided on this page
    try { this.own = JSON.parse(localStorage.getItem(this.place) || "[]"); } catch { /* then there is nothing */ }
    const ids = new Set(boot.issues.index);
    this.own = this.own.filter((line) => ids.has(line.id));
    const key = ({ time, who, id, action }) => JSON.stringify([time, who, id, action]);
    const known = new Set(boot.decisions.map(key)); // taken in before this page was written
    this.lines = [...boot.decisions, ...this.own.filter((line) => !known.has(key(line)))];
  }
  issues() { return boot.issues; }
  decisions(since) { return { start: since, lines: this.lines.slice(since) }; }
  decide(since, ids, action, label) {
    const time = new Date().toISOString(), why = ids.length > 1 ? `for ${ids.length} at once` : "";
    const lines = ids.map((id) => {
      const row = images.byId.get(id);
      const own = action === "follow" ? suggestion(row) : label && label === row.given ? "keep" : action;
      const given = { accept: row.suggested, keep: row.given, relabel: label }[own] ?? "";
      return { time, who: me(), id, action: own, label: given, why };
    });
    this.own.push(...lines);
    this.lines.push(...lines);
    let warning = "";
    try {
      localStorage.setItem(this.place, JSON.stringify(this.own));
    } catch { warning = "Not saved: this browser keeps nothing; download decisions.csv before you leave"; }
    return { ...this.decisions(since), warning };
  }
  image(id) { return boot.images[id]; }
  file() {
    const quoted = (text) => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    const lines = this.own.map((line) => [line.time, line.who, String(line.id), line.action, line.label, line.why ?? "", boot.identity].map(quoted).join(","));
    return ["time,who,id,action,label,why,identity", ...lines, ""].join("\n");
  }
}

const source = boot.issues ? new Embedded() : new Server();
