(() => {
  "use strict";
  const page = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("spikelm-theme"); } catch { return null; } };
  const apply = () => { page.dataset.theme = kept() || (dark.matches ? "dark" : "light"); };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const next = page.dataset.theme === "dark" ? "light" : "dark";
    page.dataset.theme = next;
    try { localStorage.setItem("spikelm-theme", next); } catch { /* a page from disk may have no storage */ }
  });
})();
