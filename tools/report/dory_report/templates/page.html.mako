<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="dory">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title}</title>
<link rel="icon" href="data:,">
<style>
${style | n}
</style>
</head>
<%def name="card(one)">
<section class="card ${one.state}">
<h2>${one.title}</h2>
<p class="large">${one.value}${f' <small>{quoting.html(one.unit)}</small>' if one.unit else '' | n}</p>
% for note in one.notes:
<p class="quiet">${note}</p>
% endfor
% if one.meters:
<ul class="meters">
% for meter in one.meters:
<li><span class="who">${meter.label}</span><span class="text">${meter.text}</span><span class="bar${' over' if meter.share > 1 else ''}"><i style="width:${f'{100 * min(meter.share, 1):.1f}'}%"></i></span></li>
% endfor
</ul>
% endif
</section>
</%def>
<%def name="chart(figure)">
<figure id="${figure.name}">
<figcaption><h2 id="${figure.name}-title">${figure.title}</h2><p class="quiet">${'<span class="by-hand">Zoom with + and -, or Ctrl and the wheel; scroll along it.</span> ' if figure.zooms else '' | n}${figure.hint}</p></figcaption>
<div class="bar-of-chart">
<ul class="legend">
% for name, text in figure.legend:
<li><svg width="12" height="12" aria-hidden="true"><rect class="${name}" x="1" y="1" width="10" height="10"/></svg>${text}</li>
% endfor
</ul>
% if figure.zooms:
<div class="zoom"><button type="button" data-zoom="0.5" aria-label="Zoom out of ${figure.title}">&minus;</button><button type="button" data-zoom="0" aria-label="Show all of ${figure.title}">all</button><button type="button" data-zoom="2" aria-label="Zoom into ${figure.title}">+</button></div>
% endif
</div>
<div class="plot">
% if figure.axis:
<svg class="axis" width="${figure.gutter_px}" height="${figure.height_px}" aria-hidden="true">${figure.axis | n}</svg>
% endif
<div class="across"><svg class="chart" height="${figure.height_px}" tabindex="0" role="group" aria-labelledby="${figure.name}-title" aria-describedby="keys">${figure.marks | n}</svg></div>
</div>
</figure>
</%def>
<%def name="whole(text)">\
% if short(text) == text:
${text}\
% else:
<span title="${text}"><span aria-hidden="true">${short(text)}</span><span class="hidden">${text}</span></span>\
% endif
</%def>
<%def name="either(text)">\
% if brief(text) == text:
${text}\
% else:
<span class="long" aria-hidden="true">${short(text)}</span><span class="brief" aria-hidden="true">${brief(text)}</span>\
% endif
</%def>
<%def name="rows(table)">
<section class="table">
<h2 id="${table.name}-title">${table.title}</h2>
% if any(row.details for row in table.rows):
<p class="quiet by-hand">A heading sorts. A layer opens to say why it has its kernel and its tile.</p>
% endif
<div class="wide" tabindex="0" role="region" aria-labelledby="${table.name}-title">
<table id="${table.name}">
<thead><tr>
% for number, column in enumerate(table.columns):
<th scope="col"${' class="n"' if table.rows and table.rows[0].cells[number].right else '' | n}${f' title="{quoting.html(table.hints[column])}"' if column in table.hints else '' | n}><button type="button">${column}</button></th>
% endfor
</tr></thead>
<tbody>
% for row in table.rows:
<tr class="row"${f' data-l="{quoting.html(row.link)}"' if row.link else '' | n}>
% for cell in row.cells:
% if cell.head:
<th scope="row"${f' data-key="{quoting.html(cell.sorted_by)}"' if cell.sorted_by != cell.text else '' | n}${f' title="{quoting.html(cell.text)}"' if brief(cell.text) != cell.text else '' | n}>\
% if row.details:
<button class="open" aria-expanded="false"${f' aria-label="{quoting.html(cell.text)}"' if brief(cell.text) != cell.text else '' | n}>${either(cell.text)}</button>\
% else:
${either(cell.text)}\
% if brief(cell.text) != cell.text:
<span class="hidden">${cell.text}</span>\
% endif
% endif
</th>
% else:
<td${' class="n"' if cell.right else '' | n}${f' data-key="{quoting.html(cell.sorted_by)}"' if cell.sorted_by != cell.text else '' | n}${f' title="{quoting.html(cell.hint)}"' if cell.hint else '' | n}>\
% if cell.share is not None:
<span class="share"><i style="width:${f'{100 * min(cell.share, 1):.1f}'}%"></i></span>\
% endif
${cell.text if cell.right else whole(cell.text)}</td>
% endif
% endfor
</tr>
% endfor
</tbody>
</table>
</div>
</section>
</%def>
<body>
<header>
<a class="skip" href="#main">Skip to the figures</a>
<h1>${page.title}</h1>
<p class="quiet">${page.subtitle}</p>
</header>
<main id="main" tabindex="-1">
% for problem in page.problems:
<p class="problem">${problem}</p>
% endfor
<div class="cards">
% for one in page.cards:
${card(one)}
% endfor
</div>
% for figure in page.first:
${chart(figure)}
% endfor
% for table in page.tables:
${rows(table)}
% endfor
% for figure in page.figures:
${chart(figure)}
% endfor
<section>
<h2>About</h2>
<dl>
% for name, value in page.facts:
<dt>${name}</dt><dd>${value}</dd>
% endfor
</dl>
% if page.notes:
<h3>Notes</h3>
<ul class="notes">
% for note in page.notes:
<li>${note}</li>
% endfor
</ul>
% endif
</section>
<p id="keys" class="hidden">Arrow keys step through the marks, Enter goes to the row of a layer.</p>
<div id="tip" role="status" aria-live="polite"></div>
</main>
<script>
const why = ${page.why | n};
${script | n}
</script>
</body>
</html>
