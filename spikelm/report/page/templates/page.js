(() => {
  "use strict";
  const form = document.getElementById("filters"), table = document.getElementById("runs");
  if (form && table) list(form, table);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    const said = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "copy"; }, 1500); };
    navigator.clipboard ? navigator.clipboard.writeText(text).then(() => said("copied"), () => said("not allowed")) : said("not allowed");
  });

  // While spikelm-report serve goes on: look whether this page has changed, and only then load it again.
  if (location.protocol.startsWith("http")) {
    let seen = null;
    const look = async () => {
      try {
        const answer = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
        const tag = answer.ok ? answer.headers.get("ETag") : null;
        if (seen && tag && tag !== seen) { remember(); location.reload(); return; }
        seen = tag || seen;
      } catch { /* the server has gone; it may come back */ }
      setTimeout(look, 4000);
    };
    look();
  }

  function remember() {
    const box = document.querySelector(".scroll.tall");
    try { sessionStorage.setItem("spikelm-scroll", JSON.stringify([location.pathname, box ? box.scrollTop : 0])); } catch { /* none */ }
  }

  function list(form, table) {
    const body = table.tBodies[0], rows = [...body.rows], shown = document.getElementById("shown");
    const texts = new Map(rows.map((row) => [row, (row.textContent + " " + [...row.querySelectorAll("[title]")].map((e) => e.title).join(" ")).toLowerCase()]));
    const keys = [...form.querySelectorAll("select")].map((select) => select.name);
    let sorted = { column: -1, up: true };

    const filter = (keep) => {
      const words = form.q.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = keys.map((key) => [key, form[key].value]).filter(([, value]) => value);
      let n = 0;
      for (const row of rows) {
        const yes = wanted.every(([key, value]) => row.dataset[key] === value) && words.every((word) => texts.get(row).includes(word));
        row.hidden = !yes;
        n += yes;
      }
      shown.textContent = `${n} of ${rows.length} runs`;
      if (!keep) return;
      const place = new URLSearchParams(wanted);
      if (form.q.value) place.set("q", form.q.value);
      if (sorted.column >= 0) place.set("sort", (sorted.up ? "" : "-") + sorted.column);
      history.replaceState(null, "", "#" + place);
    };

    const value = (row, column) => {
      const text = row.cells[column].textContent.trim(), number = parseFloat(text.replaceAll(",", "").replace("−", "-"));
      return table.tHead.rows[0].cells[column].classList.contains("n") ? (Number.isNaN(number) ? null : number) : text || null;
    };
    const sort = (column, up) => {
      sorted = { column, up };
      const found = rows.map((row) => [value(row, column), row]);
      const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
      found.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : up ? order(a, b) : order(b, a)));
      body.append(...found.map(([, row]) => row));
      [...table.tHead.rows[0].cells].forEach((cell, at) => {
        at === column ? cell.setAttribute("aria-sort", up ? "ascending" : "descending") : cell.removeAttribute("aria-sort");
      });
    };

    const restore = () => {
      const place = new URLSearchParams(location.hash.slice(1));
      form.q.value = place.get("q") || "";
      for (const key of keys) form[key].value = place.get(key) || "";
      const at = place.get("sort");
      if (at) sort(Math.abs(parseInt(at, 10)), !at.startsWith("-"));
      filter(false);
    };
    table.tHead.addEventListener("click", (event) => {
      const cell = event.target.closest("th");
      if (!cell) return;
      sort(cell.cellIndex, sorted.column === cell.cellIndex ? !sorted.up : !cell.classList.contains("n"));
      filter(true);
    });
    form.addEventListener("input", () => filter(true));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => filter(true)));
    addEventListener("hashchange", restore);
    restore();
    try {
      const [path, top] = JSON.parse(sessionStorage.getItem("spikelm-scroll") || "[]");
      if (path === location.pathname) document.querySelector(".scroll.tall").scrollTop = top;
      sessionStorage.removeItem("spikelm-scroll");
    } catch { /* none */ }
  }
})();
