// On every page: data of runs that its other scripts wait for, copying, tips, and loading again while runs go on.
const spikelm = (() => {
  "use strict";
  const runs = new Map(), waiting = new Map();

  // The scripts in data/ call this.
  const take = (run) => {
    runs.set(run.name, run);
    for (const done of waiting.get(run.name) || []) done(run);
    waiting.delete(run.name);
    document.dispatchEvent(new CustomEvent("spikelm-run", { detail: run }));
  };
  const run = (name) => runs.has(name) ? Promise.resolve(runs.get(name)) : new Promise((done) => {
    waiting.set(name, [...(waiting.get(name) || []), done]);
  });

  // An element with text and children; text is never markup.
  const make = (tag, about = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(about)) {
      if (value === undefined || value === null || value === false) continue;
      element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    const said = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "copy"; }, 1500); };
    navigator.clipboard ? navigator.clipboard.writeText(text).then(() => said("copied"), () => said("not allowed")) : said("not allowed");
  });

  tips();
  if (location.protocol.startsWith("http")) watch();
  return { take, run, make };

  // What a number says of its runs, when it is pointed at or reached with the keyboard; Escape closes it.
  function tips() {
    const tip = make("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
    document.body.append(tip);
    const show = (cell) => {
      tip.textContent = cell.dataset.tip;
      tip.hidden = false;
      const at = cell.getBoundingClientRect(), own = tip.getBoundingClientRect();
      const below = at.bottom + own.height + 8 < innerHeight;
      tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - own.width - 8))}px`;
      tip.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - own.height - 4)}px`;
    };
    const hide = () => { tip.hidden = true; };
    for (const [on, off] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
      document.addEventListener(on, (event) => {
        const cell = event.target.closest("[data-tip]");
        if (cell) show(cell);
      });
      document.addEventListener(off, hide);
    }
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    document.addEventListener("scroll", hide, true);
  }

  // While spikelm-report serve goes on: ask whether this page or the data of the runs that it shows have changed. New
  // curves are drawn where they are, and so is how far a run has come; only what else is new loads the page again.
  function watch() {
    const seen = new Map(), first = rest(document);
    const files = () => new Set([location.pathname, ...[...document.scripts].map((script) => new URL(script.src, location).pathname).filter((path) => path.startsWith("/data/"))]);
    const changed = async (path, tag) => {
      if (path !== location.pathname) { document.head.append(make("script", { src: `${path}?${encodeURIComponent(tag)}` })); return; }
      const fresh = new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
      if (rest(fresh) !== first) { remember(); location.reload(); return; }
      for (const part of fresh.querySelectorAll("[data-live]")) document.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`).replaceWith(document.adoptNode(part));
    };
    const look = async () => {
      try {
        for (const path of document.hidden ? [] : files()) {
          const answer = await fetch(path, { method: "HEAD", cache: "no-store" });
          const tag = answer.ok ? answer.headers.get("ETag") : null;
          if (seen.has(path) && tag && tag !== seen.get(path)) await changed(path, tag);
          if (tag) seen.set(path, tag);
        }
      } catch { /* the server has gone; it may come back */ }
      setTimeout(look, 4000);
    };
    restore();
    addEventListener("load", look); // then the scripts with data are there
  }
  function rest(page) {
    const copy = page.getElementById("main").cloneNode(true);
    for (const part of copy.querySelectorAll("[data-live]")) part.replaceChildren();
    return copy.innerHTML;
  }

  // Where the reader was: the list's own scrolling, and the field that was being typed in.
  function remember() {
    const box = document.querySelector(".scroll.tall"), field = document.activeElement;
    const place = { path: location.pathname, top: box ? box.scrollTop : 0, field: field && field.name };
    try { sessionStorage.setItem("spikelm-place", JSON.stringify(place)); } catch { /* none */ }
  }
  function restore() {
    addEventListener("load", () => {
      try {
        const place = JSON.parse(sessionStorage.getItem("spikelm-place") || "{}");
        sessionStorage.removeItem("spikelm-place");
        if (place.path !== location.pathname) return;
        const box = document.querySelector(".scroll.tall");
        if (box) box.scrollTop = place.top;
        const field = place.field && document.querySelector(`#filters [name="${CSS.escape(place.field)}"]`);
        if (field) { field.focus(); if (field.type === "search") field.setSelectionRange(field.value.length, field.value.length); }
      } catch { /* none */ }
    });
  }
})();
