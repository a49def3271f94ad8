// compare.html#runs=ID ID: configs side by side, curves over each other, firing rates, energy and texts of several runs.
(() => {
  "use strict";
  const { make } = spikelm, main = document.getElementById("comparison"), empty = [...main.childNodes];
  const NAME = /^[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*$/; // as the files in data/ are named
  const wanted = () => [...new Set((new URLSearchParams(location.hash.slice(1)).get("runs") || "").split(" "))].filter((name) => NAME.test(name));
  const address = (names) => `#${new URLSearchParams({ runs: names.join(" ") })}`;

  const load = (name) => new Promise((done) => {
    const script = make("script", { src: `data/${encodeURIComponent(name)}.js` });
    script.addEventListener("load", () => spikelm.run(name).then(done));
    script.addEventListener("error", () => done(null));
    document.head.append(script);
  });
  const loaded = new Map();

  const show = async () => {
    const names = wanted();
    if (!names.length) { main.replaceChildren(...empty); return; }
    for (const name of names) if (!loaded.has(name)) loaded.set(name, load(name));
    const found = await Promise.all(names.map((name) => loaded.get(name)));
    const lost = names.filter((_, at) => !found[at]), runs = named(found.filter(Boolean));
    main.replaceChildren();
    if (lost.length) main.append(make("p", { class: "bad" }, `not in this store: ${lost.join(", ")}`));
    if (!runs.length) return;
    heads(runs, names);
    for (const block of [numbers, curves, firing, energy, configs, samples, commands]) block(runs);
  };

  // What tells the runs apart: the system, and beyond it the task, data, seed and id as far as they differ.
  function named(runs) {
    const differ = (key) => new Set(runs.map((run) => run[key])).size > 1;
    const seen = new Map();
    for (const run of runs) {
      const parts = [run.title, ...["task", "where"].filter(differ).map((key) => run[key]), ...(differ("seed") ? [`seed ${run.seed}`] : [])];
      run.label = parts.join(", ");
      // Runs of one colour are told apart by the dash of a line and the hatching of a bar, those of one marker by its filling.
      const place = (key) => { const n = seen.get(key) || 0; seen.set(key, n + 1); return n; };
      run.dash = place(run.look.light);
      run.open = place(JSON.stringify(run.look)) > 0;
    }
    for (const run of runs) if (runs.filter((other) => other.label === run.label).length > 1) run.long = true;
    for (const run of runs) if (run.long) { run.label += ` ${run.name.slice(0, 8)}`; delete run.long; }
    return runs;
  }
  const mark = (look) => {
    const sign = make("i", { class: `look m-${look.symbol}`, "aria-hidden": "true" });
    sign.style.setProperty("--light", look.light);
    sign.style.setProperty("--dark", look.dark);
    return sign;
  };
  const section = (title, ...parts) => { const part = make("section", {}, make("h2", {}, title), ...parts); main.append(part); return part; };
  const scroll = (table) => make("div", { class: "scroll" }, table);
  const table = (first, runs, lines, kind = "list") => make("table", { class: kind },
    make("thead", {}, make("tr", {}, make("th", {}, first), ...runs.map((run) => make("th", { class: "wrap few" }, mark(run.look), " ", run.label)))), make("tbody", {}, ...lines));

  function heads(runs, names) {
    const items = runs.map((run) => {
      const others = names.filter((name) => name !== run.name);
      const remove = make("a", { class: "quiet", href: address(others), "aria-label": `remove ${run.label}` }, "×");
      return make("li", {}, mark(run.look), make("a", { href: `run/${run.name}.html` }, run.label), make("span", {}, run.task), make("span", { class: "where" }, run.where),
        make("span", { class: `state ${run.state.replace(" ", "-")}` }, run.state), make("code", {}, run.name.slice(0, 8)), remove);
    });
    main.append(make("ul", { class: "plain chosen" }, ...items), make("p", {}, make("a", { class: "quiet", href: `runs.html${address(names)}` }, "change the selection")));
    if (runs.length < 2) main.append(make("p", { class: "muted" }, "This is one run: select another to see what differs."));
  }

  function numbers(runs) {
    const scores = [...new Map(runs.flatMap((run) => run.scores.map((score) => [score.name, score.better]))).entries()];
    const lines = scores.map(([name, better]) => {
      const found = runs.map((run) => run.scores.find((score) => score.name === name));
      const values = found.map((score) => score?.value ?? null), there = values.filter((value) => value !== null);
      const best = new Set(there).size > 1 ? (better === "lower" ? Math.min(...there) : Math.max(...there)) : null;
      const heading = make("th", { scope: "row" }, name, " ", better === "lower" ? make("abbr", { class: "better", title: "lower is better" }, "↓") : "");
      return make("tr", {}, heading, ...values.map((value, at) => make("td", { class: value !== null && value === best ? "n best" : "n" }, found[at]?.text ?? "")));
    });
    const measures = [...new Set(runs.flatMap((run) => run.measures.map((measure) => measure.name)))];
    lines.push(...measures.map((name) => make("tr", {}, make("th", { scope: "row" }, name), ...runs.map((run) => {
      const measure = run.measures.find((one) => one.name === name);
      return make("td", { class: "n" }, measure ? measure.value : "", measure && measure.against ? make("small", {}, measure.against) : "");
    }))));
    if (lines.length) section("Scores and measures", scroll(table("", runs, lines, "list numbers")));
  }

  function curves(runs) {
    const families = [...new Set(runs.flatMap((run) => run.curves.map((chart) => chart.name)))];
    if (!families.length) return;
    const place = make("div", { class: "charts" });
    section("Curves", place);
    const without = runs.filter((run) => !run.curves.length);
    if (without.length) place.before(make("p", { class: "muted" }, `No curves are here of: ${without.map((run) => run.label).join("; ")}.`));
    for (const family of families) {
      const charts = runs.map((run) => [run, run.curves.find((chart) => chart.name === family)]).filter(([, chart]) => chart);
      const several = charts.some(([, chart]) => chart.lines.length > 1);
      const lines = charts.flatMap(([run, chart]) => chart.lines.map((line, at) => ({ ...line, name: several ? `${run.label}: ${line.name}` : run.label, look: run.look, dash: run.dash + at })));
      spikelm.charts.curves(spikelm.charts.place(place, family, ""), lines, charts[0][1].axis);
    }
  }

  function firing(runs) {
    const spiking = runs.filter((run) => run.firing.length).map((run) => ({ ...run, sites: run.firing }));
    if (!spiking.length) return;
    const part = section("Firing rates by site");
    spikelm.charts.sites(spikelm.charts.place(part, "", "after training, in % of the values", "tall"), spiking);
  }

  function energy(runs) {
    const known = runs.filter((run) => run.energy.length), names = [...new Set(known.flatMap((run) => run.energy.map((line) => line.name)))];
    if (!known.length) return;
    const part = section("Energy by matmul");
    const bars = known.map((run) => ({ ...run, values: names.map((name) => run.energy.find((line) => line.name === name)?.mj ?? null) }));
    spikelm.charts.bars(spikelm.charts.place(part, "", "one inference, summed over the layers", "tall"), names, bars, "mJ fp32 (lower is better)");
  }

  function configs(runs) {
    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.config)))];
    const line = (key, differs) => make("tr", {}, make("th", { scope: "row" }, make("code", {}, key)), ...(differs ? runs : runs.slice(0, 1)).map((run) => make("td", { class: "wrap few" }, make("code", {}, run.config[key] ?? "not set"))));
    const same = keys.filter((key) => runs.every((run) => run.config[key] === runs[0].config[key])), other = keys.filter((key) => !same.includes(key));
    const part = section("Config");
    if (other.length) part.append(make("h3", {}, `${other.length} setting${other.length > 1 ? "s" : ""} differ${other.length > 1 ? "" : "s"}`), scroll(table("setting", runs, other.map((key) => line(key, true)), "list config")));
    else part.append(make("p", { class: "muted" }, "No setting differs."));
    if (same.length) {
      const body = make("table", { class: "list config" }, make("tbody", {}, ...same.map((key) => line(key, false))));
      part.append(make("details", { class: "block" }, make("summary", {}, `${same.length} settings are the same`), scroll(body)));
    }
  }

  function samples(runs) {
    const writing = runs.filter((run) => run.samples.length);
    const sources = [...new Map(writing.flatMap((run) => run.samples.map((sample) => [`${sample.source}\n${sample.reference}`, sample]))).entries()];
    if (!sources.length) return;
    const part = section("Samples of text");
    for (const [key, sample] of sources) {
      const lines = [["source", sample.source], ["reference", sample.reference]].map(([name, text]) => make("dl", {}, make("dt", {}, name), make("dd", {}, text)));
      const texts = writing.map((run) => {
        const own = run.samples.find((one) => `${one.source}\n${one.reference}` === key);
        return make("dl", {}, make("dt", {}, mark(run.look), " ", run.label), make("dd", {}, own ? own.generated : make("span", { class: "muted" }, "not among its samples")));
      });
      part.append(make("article", { class: "sample" }, ...lines, ...texts));
    }
  }

  function commands(runs) {
    const told = runs.filter((run) => run.command);
    if (!told.length) return;
    section("To run them again", ...told.map((run) => make("div", { class: "again" }, make("h3", {}, mark(run.look), " ", run.label), make("pre", { class: "folded" }, run.command))));
  }

  document.addEventListener("spikelm-run", (event) => { // it goes on
    if (!wanted().includes(event.detail.name) || !main.querySelector(".chosen")) return;
    loaded.set(event.detail.name, Promise.resolve(event.detail));
    show();
  });
  addEventListener("hashchange", show);
  show();
})();
