"""Style and script of a report's page, on top of the style that all pages of explanations have."""

from __future__ import annotations

STYLE = """
.didact.report main{max-width:78rem}
.didact.report h2{font-size:1.3rem;font-weight:650;letter-spacing:-.01em;line-height:1.3;margin:0 0 .75rem}
.didact.report h3{font-size:1rem;font-weight:650;margin:1.75rem 0 0}
.didact.report section{margin:3rem 0 0;scroll-margin-top:1rem}
.didact.report section.example{margin:0;padding:1.25rem 0 1rem}
.didact.report section>p{max-width:52rem;margin:0 0 1rem}
.didact.report div.didact{padding:0}
.didact.report .short{background:var(--panel);border-radius:.5rem;padding:1.25rem 1.5rem;margin:1.75rem 0 0}
.didact.report .short h2{font-size:1.1rem;margin:0 0 .5rem}
.didact.report .short ul,.didact.report .notes,.didact.report .remarks{margin:0;padding:0 0 0 1.1rem;max-width:60rem}
.didact.report .short li,.didact.report .notes li,.didact.report .remarks li{margin:.3rem 0}
.didact.report .remarks{margin:1rem 0 0}
.didact.report .short li.warning{list-style:none;margin-left:-1.1rem;background:none;padding:.1rem 0 .1rem .85rem}
.didact.report nav.jump{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;margin:1.5rem 0 0;font-size:.9rem}
.didact.report nav.jump a{display:inline;padding:0;color:var(--muted);text-decoration:underline;
 text-underline-offset:.25em;text-decoration-color:var(--line)}
.didact.report nav.jump a::before{content:none}
.didact.report nav.jump a:hover{color:var(--text)}
.didact.report .key{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;font-size:.85rem;color:var(--muted);max-width:none}
.didact.report .key b{color:var(--text)}
.didact.report .tick-mark{display:inline-block;width:2px;height:.8em;background:var(--n-line);vertical-align:-.1em}
.didact.report .scroll{overflow-x:auto;max-width:100%}
.didact.report .numbers{table-layout:auto;width:auto;min-width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
.didact.report .numbers caption{text-align:left;color:var(--muted);padding:0 0 .5rem;caption-side:top;
 position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.didact.report .numbers th,.didact.report .numbers td{padding:.4rem 1rem .4rem 0;text-align:right;
 border-bottom:1px solid var(--line);white-space:nowrap}
.didact.report .numbers tbody tr:hover td,.didact.report .numbers tbody tr:hover th{background:var(--panel)}
.didact.report .numbers th[scope=row],.didact.report .numbers thead th:first-child,
.didact.report .numbers thead td:first-child{text-align:left;position:sticky;left:0;background:var(--page);z-index:1;
 font-weight:600;padding-right:1.5rem}
.didact.report .numbers thead th{color:var(--muted);vertical-align:bottom;white-space:normal;min-width:5rem;
 overflow-wrap:normal}
.didact.report .numbers thead th[scope=colgroup]{text-align:left;font-weight:600;color:var(--text);
 text-transform:capitalize;border-left:0;padding-left:0}
.didact.report .numbers button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer;
 text-align:inherit}
.didact.report .numbers button:hover{color:var(--text);text-decoration:underline;text-underline-offset:.2em}
.didact.report .numbers [aria-sort] button{color:var(--text);font-weight:650}
.didact.report .controls th,.didact.report .controls td{color:var(--muted)}
.didact.report .controls tr:first-child>*{border-top:2px solid var(--muted)}
.didact.report .controls th[scope=row]{font-weight:400;font-style:italic}
.didact.report tfoot th,.didact.report tfoot td{color:var(--muted)}
.didact.report .numbers tfoot th[scope=row]{font-weight:400}
.didact.report .ci{display:block;font-size:.72rem;color:var(--muted)}
.didact.report .best-mark{font-weight:700;background:var(--p5);padding:.05em .3em;border-radius:.2em;color:var(--text)}
.didact.report td .best-mark{margin-right:-.3em}
.didact.report .iv{display:block;position:relative;height:7px;margin:.2rem 0 0;min-width:4.5rem;
 background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat}
.didact.report .iv::before{content:"";position:absolute;top:2px;height:3px;left:calc(var(--a)*1%);
 width:max(2px,calc((var(--b) - var(--a))*1%));background:var(--p-line);border-radius:2px;opacity:.75}
.didact.report .iv::after{content:"";position:absolute;top:0;height:7px;width:2px;left:calc(var(--r,-1000)*1%);
 background:var(--n-line);clip-path:inset(0)}
.didact.report .scroll .iv{overflow:hidden}
.didact.report .plain{min-width:0;margin:.5rem 0 1rem}
.didact.report .plain td:last-child{white-space:normal;min-width:9rem}
.didact.report .plain td{vertical-align:baseline}
.didact.report .numbers .words{text-align:left;white-space:normal;overflow-wrap:anywhere}
.didact.report .numbers th[scope=row] wbr{display:none}
.didact.report details{margin:.5rem 0 0}
.didact.report summary{color:var(--text)}
.didact.report summary b{font-weight:650}
.didact.report .pick{font-size:inherit;border-top:1px solid var(--line);padding:.75rem 0 0;margin:.75rem 0 0}
.didact.report .pick>summary{font-weight:650}
.didact.report .pill{display:inline-block;border:1px solid var(--p-line);border-radius:1em;padding:0 .65em;
 white-space:nowrap}
.didact.report .pill.bad{background:var(--n5);border-color:var(--n-line);font-weight:650}
.didact.report .pill.some{border-color:var(--n-line)}
.didact.report #examples .settings:empty{display:none}
@media (max-width: 46rem){
 .didact.report .short{padding:1rem;margin-left:-.35rem;margin-right:-.35rem}
 .didact.report section{margin-top:2.25rem}
 .didact.report .numbers th[scope=row]{min-width:6.5rem;max-width:9.5rem;white-space:normal;
  overflow-wrap:break-word}
 .didact.report .numbers th[scope=row] wbr{display:inline}
}
"""

SCRIPT = """
(function () {
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
    Array.prototype.forEach.call(heads, function (head, at) {
      head.firstChild.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") !== "descending";
        if (at === 0) { down = head.getAttribute("aria-sort") === "ascending"; }
        Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        Array.prototype.forEach.call(table.tBodies, function (body) {
          var rows = Array.prototype.slice.call(body.rows);
          rows.sort(function (a, b) {
            if (at === 0) { return a.cells[0].textContent.localeCompare(b.cells[0].textContent) * (down ? -1 : 1); }
            var x = parseFloat(a.cells[at].dataset.v), y = parseFloat(b.cells[at].dataset.v);
            if (isNaN(x) || isNaN(y)) { return isNaN(x) - isNaN(y); }
            return down ? y - x : x - y;
          });
          rows.forEach(function (row) { body.appendChild(row); });
        });
      });
    });
  });
})();
"""
