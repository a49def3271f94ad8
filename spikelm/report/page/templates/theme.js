(() => {
  "use strict";
  const page = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("spikelm-theme"); } catch { return null; } };
  const apply = (theme) => {
    page.dataset.theme = theme;
    document.dispatchEvent(new Event("spikelm-theme"));
  };
  const own = () => apply(kept() || (dark.matches ? "dark" : "light"));
  own();
  dark.addEventListener("change", own);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const next = page.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("spikelm-theme", next); } catch { /* a page from disk may have no storage */ }
    apply(next);
  });
})();
