// The page of a session. `data` is what `session_data` tells; text goes into the page as text alone.
const data = JSON.parse(document.getElementById("data").textContent);
const { session, window: size, messages, views, moves, texts } = data;
const last = messages.text.length;
const seen = session.replayed ? "What would have been sent" : session.imported ? "What was in view" : "What the model saw";
const byId = new Map(data.checkpoints.map((each) => [each.id, each]));
const PAGE = 60;  // rows that are shown at once
const WIDE = 1000, HIGH = 130;  // of a chart, in its own units

const $ = (id) => document.getElementById(id);
const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const number = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en"));
const time = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

function node(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// --- what was seen ------------------------------------------------------------------------------

// Tokens of all messages before each position.
const sums = [0];
for (const tokens of messages.tokens) sums.push(sums[sums.length - 1] + (tokens ?? 0));

// The newest view at a turn: the last one where several begin there.
function viewAt(at) {
  let low = 0, high = views.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (views[middle].at <= at) low = middle + 1; else high = middle;
  }
  return views[Math.max(0, low - 1)];
}

const tokensAt = (at) => {
  const view = viewAt(at);
  return view.tokens + sums[at] - sums[Math.min(view.at, at)];
};

// Tokens of the prompt before the step there, with every message that it was made over.
function tokensBefore(at) {
  const view = views.findLast((each) => each.at < at) ?? views[0];
  return view.tokens + sums[at] - sums[Math.min(view.at, at)];
}

function itemsAt(at) {
  const view = viewAt(at);
  return view.at < at ? [...view.items, [view.at, at - 1]] : view.items;
}

// --- rows ---------------------------------------------------------------------------------------

function row(who, tokens, text, more = null, whole = text) {
  const begin = text.slice(0, 200).replace(/\s+/g, " ");
  const told = node("details", {},
    node("summary", {}, node("span", { class: "who" }, who), node("span", { class: "begin" }, begin),
      node("span", { class: "number soft" }, tokens === null ? "" : count(tokens, "token"))));
  told.addEventListener("toggle", () => {
    if (told.open && told.children.length === 1) {
      told.append(node("pre", { tabindex: "0" }, whole));
      if (more) told.append(more());
    }
  });
  return told;
}

const messageRow = (at) =>
  row(`${messages.speaker[at]} ${at}`, messages.tokens[at], messages.text[at]);

function checkpointRow(each) {
  const told = row("checkpoint", each.tokens, "", () => checkpointMore(each), each.summary);
  told.querySelector(".begin").textContent =
    `${each.level}: ${count(each.messages, "message")} of ${number(each.first)} to ${number(each.last)}` +
    (each.before ? `, ${number(each.before)} tokens before` : "");
  return told;
}

function checkpointMore(each) {
  const words = [`${each.id}, by ${each.made_by}`];
  if (each.before) words.push(`${number(each.before)} tokens became ${number(each.tokens)}`);
  if (each.parents.length) words.push(`made of ${each.parents.join(", ")}`);
  const told = node("div", {}, node("p", { class: "soft" }, words.join(" · ")));
  for (const verdict of each.verdicts) {
    const passed = verdict.passed ? "passed" : "refused";
    told.append(node("p", { class: verdict.passed ? "soft" : "warn" },
      `gate: ${verdict.rule} ${passed}${verdict.detail ? ": " + verdict.detail : ""}`));
  }
  if (each.covers.length) {
    const places = each.covers.flatMap(([first, end]) => range(first, end + 1));
    const list = node("ol", { class: "items" });
    const button = node("button", { type: "button", onclick: () => { button.remove(); shown(list, places, messageRow); } },
      `Show the ${count(places.length, "message")} it stands for`);
    told.append(button, list);
  }
  return told;
}

const range = (start, stop) => Array.from({ length: stop - start }, (_, i) => start + i);

// Rows a page at a time.
function shown(list, values, make, from = 0) {
  for (const value of values.slice(from, from + PAGE)) list.append(node("li", {}, make(value)));
  const next = from + PAGE;
  if (next >= values.length) return;
  const more = node("li", {}, node("button", { type: "button", onclick: () => { more.remove(); shown(list, values, make, next); } },
    `Show more of the other ${number(values.length - next)}`));
  list.append(more);
}

function itemRow(item) {
  if (typeof item === "number") return messageRow(item);
  if (item.kind === "checkpoint" && byId.has(item.id)) return checkpointRow(byId.get(item.id));
  const who = { shortened: `shortened ${item.at}`, record: "record", note: "note", memory: "memory", system: "system" };
  const text = item.text === undefined ? (byId.get(item.id)?.summary ?? "") : texts[item.text];
  return row(who[item.kind] ?? item.kind, item.tokens, text);
}

// --- charts -------------------------------------------------------------------------------------

const x = (at) => (last ? (WIDE * at) / last : 0);
const cursors = [];

function chart(label, top, paint) {
  const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label, preserveAspectRatio: "none", height: HIGH });
  const y = (tokens) => HIGH - (HIGH * Math.min(tokens, top)) / top;
  paint(svg, y);
  const cursor = drawn("line", { class: "cursor", y1: 0, y2: HIGH });
  svg.append(cursor);
  cursors.push(cursor);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    go(Math.round((last * (event.clientX - box.left)) / box.width));
  });
  $("charts").append(node("figure", {}, svg, node("figcaption", {}, label)));
}

function level(svg, name, y) {
  svg.append(drawn("line", { class: name, x1: 0, x2: WIDE, y1: y, y2: y }));
}

function charts() {
  const whole = sums[last], step = Math.max(1, Math.floor(last / WIDE));
  const places = [...new Set([...range(0, Math.floor(last / step) + 1).map((n) => n * step), last])];
  const most = Math.max(size.size, ...places.map(tokensAt), 1);
  chart(`${seen}: ${number(tokensAt(last))} tokens at the end. Dashed: the window, ${number(size.size)}; dotted: compressed from ${number(size.trigger)} on; upright: where it was.`,
    most * 1.08, (svg, y) => {
      for (const move of moves) svg.append(drawn("line", { class: "mark", x1: x(move.at), x2: x(move.at), y1: 0, y2: HIGH }));
      level(svg, "limit", y(size.size));
      level(svg, "trigger", y(size.trigger));
      const edges = [...places, ...views.flatMap((view) => [Math.max(0, view.at - 1), view.at])].sort((a, b) => a - b);
      svg.append(drawn("polyline", { class: "told", points: edges.map((at) => `${x(at)},${y(tokensAt(at))}`).join(" ") }));
    });
  chart(`The whole history: ${number(whole)} tokens.`, Math.max(1, whole) * 1.08, (svg, y) => {
    const points = places.map((at) => `${x(at)},${y(sums[at])}`);
    svg.append(drawn("polygon", { class: "area", points: [`0,${HIGH}`, ...points, `${WIDE},${HIGH}`].join(" ") }));
  });
}

// --- the turn that is shown ---------------------------------------------------------------------

function go(at) {
  at = Math.max(0, Math.min(last, at));
  const slider = $("turn");
  slider.value = at;
  slider.setAttribute("aria-valuetext", `${at} of ${last}`);
  $("turn-at").textContent = `${number(at)} of ${number(last)}`;
  for (const cursor of cursors) { cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); }
  const rows = itemsAt(at).flatMap((item) => (Array.isArray(item) ? range(item[0], item[1] + 1) : [item]));
  const plain = rows.filter((each) => typeof each === "number").length;
  $("seen-about").textContent =
    `${number(tokensAt(at))} of ${number(size.size)} tokens: ${count(plain, "message")} word for word of ${number(at)}, ` +
    `${count(rows.length - plain, "other text")} (checkpoints, shortened messages, notes).` +
    (tokensAt(at) > size.usable ? " More than a prompt may have: it is compressed before it is sent." : "");
  const list = $("seen-items");
  list.replaceChildren();
  shown(list, rows, itemRow);
  const places = moves.map((move) => move.at);
  $("back").disabled = !places.some((each) => each < at);
  $("forth").disabled = !places.some((each) => each > at);
}

// --- steps, checkpoints, search -----------------------------------------------------------------

function steps() {
  if (!moves.length) return $("steps").append(node("p", {}, tokensAt(last) > size.trigger ? "Nothing was compressed yet." : "Nothing was compressed: everything fits."));
  const rows = moves.map((move) => node("tr", {},
    node("td", {}, node("button", { type: "button", onclick: () => { go(move.at); $("seen").focus(); } }, `message ${number(move.at)}`)),
    node("td", { class: "wide" }, time(move.time)), node("td", {}, move.kind.replaceAll("_", " ")),
    node("td", { class: "number" }, number(tokensBefore(move.at))),
    node("td", { class: "number" }, number(move.tokens)),
    node("td", { class: "number wide" }, number(move.checkpoints.length))));
  const heads = ["after", "time (UTC)", "what", "tokens before", "tokens after", "checkpoints"];
  $("steps").append(node("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Steps" }, node("table", {},
    node("thead", {}, node("tr", {}, ...heads.map((each, i) => node("th", { scope: "col", class: ["", "wide", "", "number", "number", "number wide"][i] || null }, each)))),
    node("tbody", {}, ...rows))));
}

function checkpoints() {
  if (!data.checkpoints.length) return $("checkpoints").append(node("p", {}, "There are none."));
  const list = node("ol", { class: "items" });
  shown(list, data.checkpoints, checkpointRow);
  $("checkpoints").append(list);
}

function search() {
  const words = $("query").value.trim().toLowerCase();
  const list = $("found");
  list.replaceChildren();
  if (!words) return void ($("found-about").textContent = "");
  const places = range(0, last).filter((at) => messages.text[at].toLowerCase().includes(words));
  $("found-about").textContent = count(places.length, "message");
  shown(list, places, (at) => {
    const text = messages.text[at], found = text.toLowerCase().indexOf(words);
    const told = row(`${messages.speaker[at]} ${at}`, messages.tokens[at], text,
      () => node("button", { type: "button", onclick: () => { go(at + 1); $("seen").focus(); } }, `${seen} then`));
    told.querySelector(".begin").replaceChildren(text.slice(Math.max(0, found - 16), found),
      node("mark", {}, text.slice(found, found + words.length)), text.slice(found + words.length, found + 120));
    return told;
  });
}

// --- the page -----------------------------------------------------------------------------------

$("seen-heading").textContent = seen;
$("title").textContent = session.title ?? session.id;
$("about").textContent = [
  session.replayed ? "replayed from a file" : session.title ? session.id : null,
  session.model, count(last, "message"), `${number(sums[last])} tokens (${session.tokenizer})`,
  `a window of ${number(size.size)}`, count(moves.filter((move) => move.kind === "compress").length, "compression"),
  data.redacted === null ? "secrets are left in" : data.redacted ? `secrets replaced in ${count(data.redacted, "message")}` : null,
  data.other_windows.length ? `also compressed for ${data.other_windows.map(number).join(", ")}` : null,
].filter(Boolean).join(" · ");
for (const goal of data.goals) document.querySelector("header").append(node("p", {}, `Goal (${goal.status}): ${goal.text}`));
$("turn").max = last;
$("turn").addEventListener("input", () => go(Number($("turn").value)));
const around = (step) => moves.map((move) => move.at).filter((at) => step * (at - Number($("turn").value)) > 0);
$("back").addEventListener("click", () => go(Math.max(...around(-1))));
$("forth").addEventListener("click", () => go(Math.min(...around(1))));
let typing;
$("query").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(search, 150); });
charts();
steps();
checkpoints();
go(last);
