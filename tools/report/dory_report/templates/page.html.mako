<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${page.title}</title>
<link rel="icon" href="data:,">
<style>
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1500px; color: #222; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: 0.3em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1em 1.2em; margin: 0 0 1.5em; }
dt { color: #666; }
dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0 0 1.5em; white-space: nowrap; }
th { text-align: left; cursor: pointer; user-select: none; border-bottom: 2px solid #888; }
th.number { text-align: right; }
th:hover { background: #f0f4f8; }
th[aria-sort="ascending"]::after { content: " \25b2"; font-size: 0.7em; }
th[aria-sort="descending"]::after { content: " \25bc"; font-size: 0.7em; }
th, td { padding: 0.15em 0.9em 0.15em 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr.row:hover { background: #f0f4f8; }
tbody tr.openable { cursor: pointer; }
tr.details td { white-space: normal; padding: 0.3em 0 0.8em 1.5em; color: #444; background: #fafafa; }
tr.details ul { margin: 0 0 0.4em; padding-left: 1.4em; }
figure { display: inline-block; vertical-align: top; margin: 0 1em 2em 0; max-width: 100%; overflow-x: auto; }
.hint { color: #666; margin: 0 0 0.5em; }
</style>
</head>
<body>
<h1>${page.title}</h1>
<dl>
% for name, value in page.facts:
<dt>${name}</dt><dd>${value}</dd>
% endfor
</dl>
% for table in page.tables:
% if any(row.details for row in table.rows):
<p class="hint">A heading sorts. A row opens to say why it has its kernel and its tile.</p>
% endif
<div class="wide">
<table id="${table.name}" class="sortable">
<thead><tr>
% for number, column in enumerate(table.columns):
<th scope="col"${' class="number"' if table.rows and table.rows[0].cells[number].number else '' | n}>${column}</th>
% endfor
</tr></thead>
<tbody>
% for row in table.rows:
<tr class="row${' openable' if row.details else ''}">
% for cell in row.cells:
<td${' class="number"' if cell.number else '' | n} data-key="${cell.key}"${f' title="{quoting.html(cell.hint)}"' if cell.hint else '' | n}>${cell.text}</td>
% endfor
</tr>
% if row.details:
<tr class="details" hidden><td colspan="${len(table.columns)}">
% for title, lines in row.details:
<strong>${title}</strong>
<ul>
% for line in lines:
<li>${line}</li>
% endfor
</ul>
% endfor
</td></tr>
% endif
% endfor
</tbody>
</table>
</div>
% endfor
% for note in page.notes:
<p>note: ${note}</p>
% endfor
% for figure in page.figures:
<figure id="${figure.name}"></figure>
% endfor
<script>${script | n}</script>
<script>
"use strict";
const specs = ${page.specs | n};
for (const [name, spec] of Object.entries(specs))
  vegaEmbed("#" + name, spec, {actions: false, renderer: "canvas", mode: "vega-lite"}).catch(console.error);

/* A click on a heading sorts by its column, another one the other way round. The row that explains
 * a row moves with it. */
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    const groups = [...body.querySelectorAll("tr.row")].map((row) => {
      const next = row.nextElementSibling;
      const cell = row.cells[column];
      const number = cell.classList.contains("number");
      return {
        key: number ? Number(cell.dataset.key) : cell.dataset.key,
        rows: next && next.classList.contains("details") ? [row, next] : [row],
      };
    });
    const sign = down ? -1 : 1;
    groups.sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    for (const group of groups) body.append(...group.rows);
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  }));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr.openable");
    if (row) row.nextElementSibling.hidden = !row.nextElementSibling.hidden;
  });
}
</script>
</body>
</html>
