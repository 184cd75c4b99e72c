const LONG = 21; // characters: a name that is no longer stays on one line, but for tables of many columns

// Tables that fit: long names may break between their parts, and a phone shows the cells of a row below each other.
window.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll(".md-typeset :is(p, li, td) code")) {
    if (code.textContent.length <= LONG && !code.closest("table:has(th:nth-child(6))")) {
      code.style.whiteSpace = "nowrap";
    } else if (code.closest("td")) {
      breakBetweenParts(code);
    }
  }
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (heads.length > 5) {
      continue; // many short cells: such a table is moved sideways, and its first column stays
    }
    table.dataset.stacks = "";
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, at) => {
        if (at > 0 && heads.length > 2 && heads[at] && cell.textContent.trim()) {
          cell.dataset.head = heads[at];
        }
      });
    }
  }
});

// Allow a line to end after each `/`, `::`, `:`, `_` and `.` of a name, where no word is cut, and before no ".py".
function breakBetweenParts(element) {
  for (const node of [...element.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE) {
      breakBetweenParts(node);
      continue;
    }
    const parts = node.data.split(/(?<=::|[/.,:](?=\w)|[^\W_]_(?=[^\W_]))(?<!\.(?=py\b))/);
    node.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
  }
}
