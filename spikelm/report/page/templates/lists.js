// Tables that sort by a click on a heading; the list of runs with filters, columns, selection and CSV, kept in the address.
(() => {
  "use strict";
  const number = (text) => parseFloat(text.replaceAll(",", "").replace("−", "-"));
  // What a cell is sorted by: its own number, else its text; of a cell with ours and the paper's, ours.
  const value = (cell, numeric) => {
    const text = (cell.dataset.v ?? (cell.querySelector("b") || cell).textContent).trim(), found = number(text);
    return numeric && !Number.isNaN(found) ? found : text || null;
  };
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
  const sort = (table, column, up) => {
    const body = table.tBodies[0], heading = table.tHead.rows[0].cells[column];
    if (!heading) return;
    const numeric = heading.classList.contains("n");
    const found = [...body.rows].map((row) => [value(row.cells[column], numeric), row]);
    found.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : up ? order(a, b) : order(b, a)));
    body.append(...found.map(([, row]) => row));
    for (const cell of table.tHead.rows[0].cells) {
      cell === heading ? cell.setAttribute("aria-sort", up ? "ascending" : "descending") : cell.removeAttribute("aria-sort");
    }
  };
  // Numbers begin with the largest, words with the first; the next click turns it around.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("table.sortable thead button");
    if (!button) return;
    const heading = button.closest("th"), table = button.closest("table");
    const before = heading.getAttribute("aria-sort");
    sort(table, heading.cellIndex, before ? before === "descending" : !heading.classList.contains("n"));
    table.dispatchEvent(new Event("sorted"));
  });

  const table = document.getElementById("runs");
  if (table) list(document.getElementById("filters"), table);

  function list(form, table) {
    const rows = [...table.tBodies[0].rows], headings = [...table.tHead.rows[0].cells], shown = document.getElementById("shown");
    const texts = new Map(rows.map((row) => [row, (row.textContent + " " + [...row.querySelectorAll("[title]")].map((e) => e.title).join(" ")).toLowerCase()]));
    const keys = [...form.querySelectorAll("select")].map((select) => select.name);
    const boxes = [...document.querySelectorAll("#columns input")], all = document.getElementById("pick-all");
    const compare = document.getElementById("compare"), unselect = document.getElementById("unselect");
    const pick = (row) => row.cells[0].firstElementChild;
    const visible = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);

    const keep = () => {
      const place = new URLSearchParams();
      for (const key of keys) if (form[key].value) place.set(key, form[key].value);
      if (form.q.value) place.set("q", form.q.value);
      const sorted = headings.find((cell) => cell.hasAttribute("aria-sort"));
      if (sorted) place.set("sort", (sorted.getAttribute("aria-sort") === "ascending" ? "" : "-") + sorted.dataset.key);
      if (boxes.some((box) => box.checked !== ("unasked" in box.dataset))) place.set("columns", boxes.filter((box) => box.checked).map((box) => box.name).join(" "));
      const picked = rows.filter((row) => pick(row).checked).map((row) => row.dataset.name);
      if (picked.length) place.set("runs", picked.join(" "));
      history.replaceState(null, "", "#" + place);
    };
    const filter = () => {
      const words = form.q.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = keys.map((key) => [key, form[key].value]).filter(([, value]) => value);
      let n = 0;
      for (const row of rows) {
        const yes = wanted.every(([key, value]) => row.dataset[key] === value) && words.every((word) => texts.get(row).includes(word));
        row.hidden = !yes;
        n += yes;
      }
      shown.textContent = `${n} of ${rows.length} runs`;
    };
    const columns = () => {
      const names = new Map(boxes.map((box) => [box.name, box.checked]));
      headings.forEach((heading, at) => {
        if (!names.has(heading.dataset.key)) return;
        const hidden = !names.get(heading.dataset.key);
        if (heading.hidden === hidden) return;
        heading.hidden = hidden;
        for (const row of rows) row.cells[at].hidden = hidden;
      });
    };
    const selection = () => {
      const picked = rows.filter((row) => pick(row).checked);
      for (const row of rows) row.classList.toggle("picked", pick(row).checked);
      const there = visible();
      all.checked = there.length > 0 && there.every((row) => pick(row).checked);
      all.indeterminate = !all.checked && picked.length > 0;
      unselect.hidden = !picked.length;
      compare.textContent = picked.length ? `compare ${picked.length} run${picked.length > 1 ? "s" : ""}` : "compare: select runs";
      if (picked.length) compare.href = `compare.html#${new URLSearchParams({ runs: picked.map((row) => row.dataset.name).join(" ") })}`;
      else compare.removeAttribute("href");
      compare.setAttribute("aria-disabled", String(!picked.length));
    };
    const restore = () => {
      const place = new URLSearchParams(location.hash.slice(1));
      form.q.value = place.get("q") || "";
      for (const key of keys) form[key].value = place.get(key) || "";
      const names = place.has("columns") ? place.get("columns").split(" ") : null;
      for (const box of boxes) box.checked = names ? names.includes(box.name) : "unasked" in box.dataset;
      const picked = new Set((place.get("runs") || "").split(" "));
      for (const row of rows) pick(row).checked = picked.has(row.dataset.name);
      const by = place.get("sort") || "", at = headings.findIndex((cell) => cell.dataset.key && cell.dataset.key === by.replace("-", ""));
      if (at >= 0) sort(table, at, !by.startsWith("-"));
      columns();
      filter();
      selection();
    };

    form.addEventListener("input", () => { filter(); selection(); keep(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { filter(); selection(); keep(); }));
    table.addEventListener("sorted", keep);
    table.addEventListener("change", (event) => {
      if (event.target === all) for (const row of visible()) pick(row).checked = all.checked;
      selection();
      keep();
    });
    unselect.addEventListener("click", () => { for (const row of rows) pick(row).checked = false; selection(); keep(); });
    document.getElementById("columns").addEventListener("change", () => { columns(); keep(); });
    document.addEventListener("click", (event) => { if (!event.target.closest("#columns")) document.getElementById("columns").open = false; });
    document.getElementById("csv").addEventListener("click", () => {
      const link = spikelm.make("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: "runs.csv" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    addEventListener("hashchange", restore);
    restore();

    // What is shown, in its order; numbers with all of their digits, and the whole id of each run.
    function csv() {
      const shown = headings.map((heading, at) => [heading, at]).filter(([heading]) => heading.dataset.key && !heading.hidden);
      const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      const text = (row, heading, at) => {
        if (heading.dataset.key === "run") return row.dataset.name;
        const cell = row.cells[at];
        return cell.dataset.v ?? cell.textContent.trim().replaceAll("−", "-");
      };
      const lines = visible().map((row) => shown.map(([heading, at]) => quoted(text(row, heading, at))).join(","));
      return [shown.map(([heading]) => quoted(heading.firstElementChild.textContent)).join(","), ...lines, ""].join("\n");
    }
  }
})();
