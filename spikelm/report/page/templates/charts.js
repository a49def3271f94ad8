// Charts with plotly, in the colours of the page: they are drawn again when it turns light or dark.
(() => {
  "use strict";
  const LINES = [["#0072B2", "#56B4E9"], ["#D55E00", "#FF8C42"], ["#007A58", "#33C79A"], ["#B0568F", "#E29AC5"], ["#1B1F24", "#E4E8EC"], ["#8A6A00", "#F0B93A"]];
  const HATCHES = ["", "/", ".", "x", "-", "\\"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const drawn = new Map(); // element -> what makes its traces and layout
  const dark = () => document.documentElement.dataset.theme === "dark";
  const colour = (look) => (dark() ? look.dark : look.light);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"); // plotly reads tags

  const axis = (more) => ({
    gridcolor: css("--line"), linecolor: css("--muted"), zeroline: false, automargin: true, tickfont: { size: 11 }, title: { font: { size: 12 }, standoff: 8 }, ...more,
    ...(more && typeof more.title === "string" ? { title: { text: more.title, font: { size: 12 }, standoff: 8 } } : {}),
  });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--fg"), family: getComputedStyle(document.body).fontFamily, size: 12 },
    margin: { l: 48, r: 12, t: 8, b: 40 }, hoverlabel: { bgcolor: css("--bg"), bordercolor: css("--line"), font: { color: css("--fg"), size: 12 }, align: "left", namelength: 40 },
    legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 11.5 } }, showlegend: true, uirevision: "kept",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--fg") }, ...more,
  });
  const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

  const draw = (element, make) => {
    drawn.set(element, make);
    const { traces, shown } = make();
    return Plotly.react(element, traces, layout(shown), CONFIG);
  };
  const again = () => { for (const [element, make] of drawn) if (element.isConnected) draw(element, make); else drawn.delete(element); };
  document.addEventListener("spikelm-theme", again);

  // Curves of one family. Several runs have the colours of their systems, the curves of one run have their own.
  const curves = (element, lines, title) => draw(element, () => ({
    traces: lines.map((line, at) => ({
      type: "scatter", mode: line.x.length > 12 ? "lines" : "lines+markers", name: plain(line.name), x: line.x, y: line.y,
      line: { color: line.look ? colour(line.look) : LINES[at % LINES.length][dark() ? 1 : 0], dash: DASHES[(line.look ? line.dash : Math.floor(at / LINES.length)) % DASHES.length], width: 1.8 },
      marker: { size: 5, symbol: line.look ? line.look.symbol : "circle" }, hovertemplate: "%{y:.5~g}",
    })),
    shown: { hovermode: "x unified", showlegend: lines.length > 1, xaxis: axis({ title, nticks: 6 }), yaxis: axis({ nticks: 6, tickformat: "~g" }) },
  }));

  // Horizontal bars in groups: one bar for each run and name.
  const bars = (element, names, runs, title) => {
    element.style.height = `${120 + names.length * (12 * runs.length + 8)}px`;
    return draw(element, () => ({
      traces: runs.map((run) => ({
        type: "bar", orientation: "h", name: plain(run.label), y: names.map(plain), x: run.values, marker: { color: colour(run.look), pattern: { shape: HATCHES[run.dash % HATCHES.length], fillmode: "replace", fgcolor: colour(run.look), bgcolor: run.dash ? css("--bg") : colour(run.look), size: 6 }, line: { color: colour(run.look), width: run.dash ? 1 : 0 } }, hovertemplate: "%{x:.4~g}",
      })),
      shown: { barmode: "group", bargap: 0.25, hovermode: "y unified", xaxis: axis({ title, nticks: 6, tickformat: "~g" }), yaxis: axis({ autorange: "reversed", type: "category" }), legend: { orientation: "h", y: 1.01, yanchor: "bottom", x: 0 }, margin: { l: 48, r: 12, t: 34, b: 44 } },
    }));
  };

  // Values by site: layers below, kinds of site above them.
  const sites = (element, runs) => draw(element, () => ({
    traces: runs.map((run) => ({
      type: "scatter", mode: "markers", name: plain(run.label), x: [run.sites.map((site) => plain(`${site.stack} ${site.layer}`)), run.sites.map((site) => plain(site.kind))], y: run.sites.map((site) => 100 * site.rate),
      marker: { color: colour(run.look), symbol: run.look.symbol + (run.open ? "-open" : ""), size: 9 }, cliponaxis: false, hovertemplate: "%{y:.1f} %",
    })),
    shown: { hovermode: "x unified", xaxis: axis({ type: "multicategory", tickfont: { size: 10 } }), yaxis: axis({ title: "firing rate, %", rangemode: "tozero", nticks: 6 }), legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 48, r: 12, t: 30, b: 60 } },
  }));

  // Score against energy: one mark for each system, with its name beside it where there is room for it.
  const scatter = (element, chart) => draw(element, () => {
    const placed = labels(element, chart);
    const traces = chart.points.map((point, at) => ({
      type: "scatter", mode: "markers+text", name: plain(point.label), x: [point.x], y: [point.y], customdata: [point.href],
      text: [placed[at] ? plain(point.label) : ""], textposition: placed[at] || "top center", textfont: { size: 11.5, color: css("--fg") }, cliponaxis: false,
      marker: { color: colour(point.look), symbol: point.look.symbol, size: 11, line: { color: css("--bg"), width: 1 } },
      hovertemplate: `<b>${plain(point.label)}</b><br>score %{y:.2f}<br>%{x:.4~g} mJ<br>${plain(point.about)}<extra></extra>`,
    }));
    const all = placed.every(Boolean);
    return { traces, shown: {
      hovermode: "closest", showlegend: !all, dragmode: "pan", uirevision: chart.name,
      xaxis: axis({ title: chart.x_title, type: "log", range: span(chart.points.map((p) => Math.log10(p.x)), 0.08), ...ticks(chart.points.map((p) => p.x)) }),
      yaxis: axis({ title: chart.y_title, range: span(chart.points.map((p) => p.y), 0.1), nticks: 7 }), margin: { l: 56, r: 20, t: 12, b: 48 },
    } };
  }).then(() => {
    element.removeAllListeners("plotly_click");
    element.on("plotly_click", (event) => { location.href = event.points[0].customdata; });
  });
  const span = (values, room) => {
    const low = Math.min(...values), high = Math.max(...values), more = (high - low) * room || 0.5;
    return [low - more, high + more];
  };
  // 1, 2 and 5 of every decade; the decades alone where these would be too many, more where they would be too few.
  const ticks = (values) => {
    const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
    const decades = Math.log10(Math.max(...values) / Math.min(...values));
    const steps = decades > 3 ? [1] : decades > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8], found = [];
    for (let power = low; power <= high; power++) for (const step of steps) found.push(Number(`${step}e${power}`));
    return { tickvals: found, ticktext: found.map(String) };
  };

  // For each mark a side on which its name meets no other name and no mark; none where there is no such side.
  function labels(element, chart) {
    const width = (element.clientWidth || 800) - 76, height = (element.clientHeight || 420) - 60;
    const xs = span(chart.points.map((p) => Math.log10(p.x)), 0.08), ys = span(chart.points.map((p) => p.y), 0.1);
    const at = chart.points.map((p) => [(Math.log10(p.x) - xs[0]) / (xs[1] - xs[0]) * width, (1 - (p.y - ys[0]) / (ys[1] - ys[0])) * height]);
    const taken = at.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
    const free = (box) => box[0] > -4 && box[2] < width + 16 && box[1] > -8 && box[3] < height + 4 && taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
    return chart.points.map((point, n) => {
      const [x, y] = at[n], w = point.label.length * 6.4 + 4, h = 14;
      const sides = {
        "middle right": [x + 8, y - h / 2, x + 8 + w, y + h / 2], "middle left": [x - 8 - w, y - h / 2, x - 8, y + h / 2],
        "top center": [x - w / 2, y - 8 - h, x + w / 2, y - 8], "bottom center": [x - w / 2, y + 8, x + w / 2, y + 8 + h],
        "top right": [x + 4, y - 8 - h, x + 4 + w, y - 8], "top left": [x - 4 - w, y - 8 - h, x - 4, y - 8],
        "bottom right": [x + 4, y + 8, x + 4 + w, y + 8 + h], "bottom left": [x - 4 - w, y + 8, x - 4, y + 8 + h],
      };
      const side = Object.keys(sides).find((name) => free(sides[name]));
      if (side) taken.push(sides[side]);
      return side;
    });
  }

  // A figure with a heading and an empty place for a chart.
  const place = (parent, name, about, kind = "") => {
    const { make } = spikelm, plot = make("div", { class: `plot ${kind}`, role: "img", "aria-label": name });
    parent.append(make("figure", {}, make("figcaption", {}, name, " ", make("span", { class: "muted" }, about || "")), plot));
    return plot;
  };
  spikelm.charts = { curves, bars, sites, place };

  const own = document.getElementById("curves"), places = new Map();
  const show = (run) => {
    for (const chart of run.curves) {
      if (!places.has(chart.name)) places.set(chart.name, place(own, chart.name, chart.about));
      curves(places.get(chart.name), chart.lines, chart.axis);
    }
  };
  if (own) {
    spikelm.run(own.dataset.run).then(show);
    document.addEventListener("spikelm-run", (event) => show(event.detail)); // it goes on
  }

  const main = document.getElementById("scatter");
  if (main) {
    const charts = JSON.parse(main.dataset.charts), choice = document.getElementById("chart-choice");
    const body = document.querySelector("#scatter-table tbody"), { make } = spikelm;
    const choose = () => {
      const chart = charts.find((one) => one.name === choice.value) || charts[0];
      document.getElementById("headline").textContent = chart.headline;
      document.getElementById("chart-where").textContent = chart.where;
      body.replaceChildren(...chart.points.map((point) => make("tr", {},
        make("td", {}, make("a", { href: point.href }, point.label)), make("td", { class: "n", "data-v": point.y }, point.y.toFixed(2)), make("td", { class: "n", "data-v": point.x }, point.x.toPrecision(3)))));
      scatter(main, chart);
    };
    const wanted = new URLSearchParams(location.hash.slice(1)).get("chart");
    if (charts.some((one) => one.name === wanted)) choice.value = wanted;
    choice.addEventListener("change", () => { history.replaceState(null, "", `#${new URLSearchParams({ chart: choice.value })}`); choose(); });
    let width = main.clientWidth;
    new ResizeObserver(() => { if (Math.abs(main.clientWidth - width) > 40) { width = main.clientWidth; choose(); } }).observe(main);
    choose();
  }
})();
