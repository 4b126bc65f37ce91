"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
/* What tells more when it is pointed at, and what the arrow keys step through. */
const MARKS = ".m, .span path, [data-tip]";
const tip = document.getElementById("tip");

/* The row below a row that says more about it. */
const detailsOf = (row) => {
  const next = row.nextElementSibling;
  return next && next.classList.contains("details") ? next : null;
};

/* What a row says: titles and lines are numbers of texts that stand in the page once. */
function explain(row, sections) {
  const details = document.createElement("tr");
  details.className = "details";
  const cell = details.insertCell();
  cell.colSpan = row.cells.length;
  const box = document.createElement("div");
  box.className = "why";
  cell.append(box);
  row.after(details);
  for (const [title, ...lines] of sections) {
    const heading = document.createElement("h3");
    heading.textContent = why.texts[title];
    const list = document.createElement("ul");
    for (const line of lines) list.append(Object.assign(document.createElement("li"), { textContent: why.texts[line] }));
    box.append(heading, list);
  }
}

/* What a cell is sorted by: its text where nothing else is given. */
const keyOf = (cell) => cell.dataset.key ?? cell.textContent.trim();

/* A click on a heading sorts by its column, another one the other way round. The row that explains
 * a row moves with it. */
for (const table of all("table")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    const groups = all("tr.row", body).map((row) => {
      const next = detailsOf(row);
      const text = keyOf(row.cells[column]);
      return {
        key: text !== "" && isFinite(text) ? Number(text) : text,
        rows: next ? [row, next] : [row],
      };
    });
    const sign = down ? -1 : 1;
    groups.sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    for (const group of groups) body.append(...group.rows);
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  }));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr.row");
    const button = row && row.querySelector(".open");
    if (!button) return;
    const details = detailsOf(row);
    if (details) details.remove();
    else explain(row, why.rows[row.dataset.l]);
    button.setAttribute("aria-expanded", String(!details));
  });
}

/* Marks and rows of a layer have its index in data-l: what is pointed at marks the others. */
function link(layers, source) {
  for (const old of all(".hot")) old.classList.remove("hot");
  document.body.classList.toggle("linked", layers.length > 0);
  for (const layer of layers)
    for (const one of all(`[data-l~="${layer}"]`)) one.classList.add("hot");
  if (!source || source.tagName === "TR") return;
  const row = layers.length && document.querySelector(`tr.row[data-l="${layers[0]}"]`);
  const box = row && row.closest(".wide");
  if (!box) return;
  const head = row.closest("table").tHead.offsetHeight;
  if (row.offsetTop < box.scrollTop + head) box.scrollTop = row.offsetTop - head;
  const below = row.offsetTop + row.offsetHeight - box.clientHeight;
  if (below > box.scrollTop) box.scrollTop = below;
}

/* What a lane does for a layer, and the tile that lies under a place of the window. */
function spanText(mark, x) {
  const tiles = [];
  let at = 0;
  for (const [, move, length] of mark.getAttribute("d").matchAll(/m(-?\d+) 0v1h(\d+)/g))
    tiles.push({ start: (at += Number(move)), length: Number(length) });
  const words = (count) => count.toLocaleString("en");
  const all = tiles.reduce((sum, tile) => sum + tile.length, 0);
  const what = mark.parentElement.dataset.what;
  const whole = `${what}: ${words(all)} cycles${tiles.length > 1 ? ` in ${tiles.length} tiles` : ""}`;
  const matrix = mark.getScreenCTM();
  const point = (x - matrix.e) / matrix.a;
  const slack = 2 / matrix.a;
  const tile = tiles.findIndex((one) => point >= one.start - slack && point <= one.start + one.length + slack);
  if (tile < 0) return whole;
  return `${whole}\ntile ${tile}: ${words(tiles[tile].length)} cycles from ${words(tiles[tile].start)}`;
}

/* The name of a layer, as its row has it. */
function nameOf(layers) {
  const cell = layers.length === 1 && document.querySelector(`tr.row[data-l="${layers[0]}"] > th`);
  if (!cell) return "";
  return `${cell.title || cell.textContent.trim()}\n`;
}

const textOf = (mark, x) =>
  mark.tagName === "path" ? spanText(mark, x) : (mark.dataset.tip || "").replaceAll(" \u00b7 ", "\n");

function show(mark, x, y) {
  tip.textContent = mark ? nameOf(linked(mark)) + textOf(mark, x) : "";
  tip.classList.toggle("shown", Boolean(mark));
  if (!mark) return;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + 14, innerWidth - width - 4));
  const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

const linked = (element) => {
  const owner = element && element.closest("[data-l]");
  return owner ? owner.dataset.l.split(" ") : [];
};

document.addEventListener("pointerover", (event) => {
  const cell = event.target.closest("td.n");
  if (cell && !cell.title && Number(keyOf(cell)) >= 1000)
    cell.title = Number(keyOf(cell)).toLocaleString("en");
  const row = event.target.closest("tr.row[data-l]");
  const mark = event.target.closest(MARKS);
  link(linked(mark || row), mark || row);
  show(mark, event.clientX, event.clientY);
});
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest(MARKS);
  if (mark) show(mark, event.clientX, event.clientY);
});
document.documentElement.addEventListener("pointerleave", () => { link([]); show(null); });
document.addEventListener("focusin", (event) => {
  const row = event.target.closest("tr.row[data-l]");
  if (row) link(linked(row), row);
});

function goto(layer) {
  const row = document.querySelector(`tr.row[data-l="${layer}"]`);
  if (!row) return;
  row.scrollIntoView({ block: "nearest" });
  (row.querySelector("button") || row).focus({ preventScroll: true });
}

/* Keys: arrows step from mark to mark of the chart that has the focus. */
for (const chart of all(".chart")) {
  const marks = all(MARKS, chart);
  let at = -1;
  const leave = () => { for (const old of all(".at")) old.classList.remove("at"); };
  const step = (to) => {
    at = Math.max(0, Math.min(marks.length - 1, to));
    leave();
    const mark = marks[at];
    if (!mark) return;
    mark.classList.add("at");
    link(linked(mark), mark);
    const scroller = chart.parentElement;
    let box = mark.getBoundingClientRect();
    const frame = scroller.getBoundingClientRect();
    if (box.left < frame.left || box.left > frame.right - 20) {
      scroller.scrollLeft += box.left - frame.left - frame.width / 2;
      box = mark.getBoundingClientRect();
    }
    show(mark, box.left, box.bottom);
  };
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: marks.length - 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) step(steps[event.key]);
    else if (event.key === "Enter" && marks[at]) goto(linked(marks[at])[0]);
    else if (event.key === "Escape") { leave(); link([]); show(null); }
    else return;
    event.preventDefault();
  });
  chart.addEventListener("blur", () => { leave(); link([]); show(null); });
  chart.addEventListener("click", (event) => {
    const mark = event.target.closest(MARKS);
    if (!mark) return;
    at = marks.indexOf(mark);
    goto(linked(mark)[0]);
  });
}

/* Zooming makes a chart wider than its frame: places are percent of its width. */
for (const figure of all("figure")) {
  const buttons = all("[data-zoom]", figure);
  if (!buttons.length) continue;
  const frame = figure.querySelector(".across");
  const chart = figure.querySelector(".chart");
  let zoom = 1;
  const set = (wanted, x) => {
    const before = (frame.scrollLeft + x) / chart.clientWidth;
    zoom = Math.max(1, Math.min(4096, wanted));
    chart.style.width = `${100 * zoom}%`;
    fit(chart);
    frame.scrollLeft = before * chart.clientWidth - x;
  };
  const middle = () => frame.clientWidth / 2;
  for (const button of buttons)
    button.addEventListener("click", () => set(Number(button.dataset.zoom) * zoom, middle()));
  chart.addEventListener("keydown", (event) => {
    const factor = { "+": 2, "=": 2, "-": 0.5, 0: 0 }[event.key];
    if (factor !== undefined && !event.ctrlKey && !event.metaKey) set(factor * zoom, middle());
  });
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    set(zoom * 2 ** (-event.deltaY / 200), event.clientX - frame.getBoundingClientRect().left);
  }, { passive: false });
}

/* A name is shown where it fits: in its box shortened, below a chart not at all over another. */
function fit(chart) {
  for (const text of all(".names text", chart)) {
    const full = text.dataset.full || (text.dataset.full = text.textContent);
    const box = text.previousElementSibling.getBoundingClientRect().width - 6;
    const letters = Math.floor(box / 6);
    const tail = Math.floor((letters - 1) / 2);
    const least = text.closest(".strips") ? full.split(" ")[0] : "";
    text.textContent = letters >= full.length ? full
      : letters < 7 ? (letters < least.length ? "" : least) : `${full.slice(0, letters - 1 - tail)}\u2026${full.slice(full.length - tail)}`;
  }
  for (const group of all(".thin", chart)) {
    let free = -1e9;
    for (const text of all("text", group)) {
      text.style.display = "";
      const { left, right } = text.getBoundingClientRect();
      if (left < free) text.style.display = "none";
      else free = right + 6;
    }
  }
}
const watcher = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target)));
for (const chart of all(".chart")) watcher.observe(chart);
