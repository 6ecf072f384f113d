"use strict";
(() => {
  const groups = JSON.parse(document.getElementById("numbers").textContent);
  const colour = (method) => `var(--method-${CSS.escape(method)}, var(--method-other))`;

  function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function html(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // Round steps for an axis that ends at `top`.
  function ticks(low, top, count) {
    const raw = (top - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((unit) => unit * power).find((size) => size >= raw * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= top + 1e-9 * step; i++) found.push(i * step);
    return found;
  }
  const short = (value) => String(Number(value.toPrecision(6)));
  const percent = (count, n) => `${(Math.floor((count * 1000) / n + 1e-9) / 10).toFixed(1)} %`;

  // Wilson's interval at 95 %, as in the tables.
  function wilson(count, n) {
    const z = 1.959964, p = count / n, base = 1 + (z * z) / n;
    const middle = (p + (z * z) / (2 * n)) / base;
    const half = (z / base) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
    return [Math.max(0, Math.min(p, middle - half)), Math.min(1, Math.max(p, middle + half))];
  }

  // A frame with axes; returns its scales and the plot to draw into.
  function frame(figure, low, top, high, yText, xName, height) {
    const width = Math.max(260, Math.round(figure.clientWidth) || 480);
    const box = { left: 44, right: 12, top: 10, bottom: 40 };
    const x = (value) => box.left + ((value - low) / (top - low)) * (width - box.left - box.right);
    const y = (value) => height - box.bottom - (value / high) * (height - box.top - box.bottom);
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": figure.dataset.title || xName });
    for (const value of ticks(0, high, 4).filter((value) => high <= 1 || Number.isInteger(value))) {
      chart.append(svg("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(value), y2: y(value) }));
      chart.append(svg("text", { x: box.left - 7, y: y(value) + 4, "text-anchor": "end" }, yText(value)));
    }
    for (const value of ticks(low, top, width > 420 ? 7 : 4))
      chart.append(svg("text", { x: x(value), y: height - box.bottom + 17, "text-anchor": "middle" }, short(value)));
    chart.append(svg("line", { class: "axis", x1: box.left, x2: width - box.right, y1: y(0), y2: y(0) }));
    chart.append(svg("text", { x: (box.left + width - box.right) / 2, y: height - 5, "text-anchor": "middle" }, xName));
    return { chart, x, y, box, width, height };
  }

  function curve(figure, group, size, series) {
    const grid = group.sizes[size], top = grid.step * (grid.points - 1);
    const name = size === "radius" ? `${group.norm} radius` : `${group.norm} proxy radius`;
    const { chart, x, y, box, width, height } = frame(figure, 0, top, 1, (v) => `${Math.round(v * 100)} %`, name, 300);
    const shown = series.filter((one) => one[size] && !one.hidden);
    // Between two points of the grid the line is at the height of the right one: never above the true curve.
    const path = (heights) => heights.map((h, i) => (i ? `V${y(h).toFixed(1)}H${x(i * grid.step).toFixed(1)}` : `M${x(0)},${y(h).toFixed(1)}`)).join("");
    // One band, of the last series: more would hide each other.
    for (const one of shown.slice(-1).filter((one) => one.interval)) {
      const limits = one[size].map((count) => wilson(count, group.n));
      const upper = limits.map(([, high], i) => `${x(i * grid.step).toFixed(1)},${y(high).toFixed(1)}`);
      const lower = limits.map(([low], i) => `${x(i * grid.step).toFixed(1)},${y(low).toFixed(1)}`).reverse();
      chart.append(svg("path", { class: "band", d: `M${upper.join("L")}L${lower.join("L")}Z`, style: `fill:${colour(one.method)}` }));
    }
    for (const one of shown)
      chart.append(svg("path", { class: "line", d: path(one[size].map((count) => count / group.n)), style: `stroke:${colour(one.method)}`, ...(one.dashed ? { "stroke-dasharray": "6 4" } : {}) }));
    // What a stranger who comes first leaves: measured at a few radii, each with its interval; side by side, as runs share radii.
    const attacked = shown.filter((one) => size === "radius" && one.attacked);
    for (const [place, one] of attacked.entries()) {
      const { radii, shares, low, high } = one.attacked, style = `stroke:${colour(one.method)}`;
      const beside = (radius) => x(radius) + 5 * (place - (attacked.length - 1) / 2);
      const inside = radii.map((_, i) => i).filter((i) => radii[i] <= top);
      chart.append(svg("path", { class: "left", d: `M${inside.map((i) => `${beside(radii[i]).toFixed(1)},${y(shares[i]).toFixed(1)}`).join("L")}`, style }));
      for (const i of inside) {
        const at = beside(radii[i]), ends = [y(low[i]), y(high[i])].map((end) => end.toFixed(1));
        chart.append(svg("path", { class: "whisker", d: `M${at},${ends[0]}V${ends[1]}M${at - 3},${ends[0]}h6M${at - 3},${ends[1]}h6`, style }));
        chart.append(svg("circle", { class: "left", cx: at, cy: y(shares[i]).toFixed(1), r: 3.5, style }));
      }
    }
    const cursor = svg("line", { class: "cursor", y1: box.top, y2: height - box.bottom, visibility: "hidden" });
    chart.append(cursor);
    const tip = html("div", { class: "tip", hidden: "" });
    chart.addEventListener("pointermove", (event) => {
      const place = chart.getBoundingClientRect(), scale = width / place.width;
      const value = ((event.clientX - place.left) * scale - box.left) / (width - box.left - box.right) * top;
      const i = Math.max(0, Math.min(grid.points - 1, Math.round(value / grid.step)));
      cursor.setAttribute("x1", x(i * grid.step));
      cursor.setAttribute("x2", x(i * grid.step));
      cursor.setAttribute("visibility", "visible");
      tip.replaceChildren(html("b", {}, `${size === "radius" ? "radius" : "proxy radius"} ${short(i * grid.step)}`));
      for (const one of [...shown].sort((a, b) => b[size][i] - a[size][i])) {
        const [low, high] = wilson(one[size][i], group.n);
        const range = one.interval ? ` (${Math.floor(low * 100)}–${Math.ceil(high * 100)})` : "";
        tip.append(html("div", {}, html("i", { style: `background:${colour(one.method)}` }), one.label + (one.dashed ? ", before memory" : ""), html("span", {}, percent(one[size][i], group.n) + range)));
      }
      tip.hidden = false;
      const left = x(i * grid.step) / scale + (place.left - figure.getBoundingClientRect().left);
      const over = left + tip.offsetWidth + 14 > figure.clientWidth;
      tip.style.left = `${Math.max(0, over ? left - tip.offsetWidth - 12 : left + 12)}px`;
      tip.style.top = `${place.top - figure.getBoundingClientRect().top + 14}px`;
    });
    chart.addEventListener("pointerleave", () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); });
    const whom = [...new Set(shown.map((one) => one.protects))].join("; ");
    figure.replaceChildren(html("h4", {}, `By ${size === "radius" ? "radius" : "proxy radius"}${whom && `: ${whom}`}`), chart, tip);
    if (grid.beyond) figure.append(html("p", { class: "small soft" }, `${grid.beyond} certificates lie beyond the right end.`));
    if (!shown.length) figure.append(html("p", { class: "small soft" }, "These runs do not tell this size."));
  }

  function histogram(figure, one) {
    const bins = one.series[0].counts.length, step = (one.high - one.low) / bins;
    const most = Math.max(1, ...one.series.flatMap((series) => series.counts));
    const { chart, x, y } = frame(figure, one.low, one.high, most * 1.05, (v) => short(v), one.title, 210);
    for (const series of one.series) {
      const d = series.counts.map((count, i) => `${i ? "" : `M${x(one.low)},${y(0)}`}V${y(count).toFixed(1)}H${x(one.low + (i + 1) * step).toFixed(1)}`).join("");
      chart.append(svg("path", { class: "bars", d: `${d}V${y(0)}`, style: `stroke:${colour(series.method)};fill:${colour(series.method)}` }));
    }
    for (const series of one.series) {
      const at = x(Math.min(series.median, one.high));
      chart.append(svg("line", { x1: at, x2: at, y1: y(0), y2: y(most * 1.05), style: `stroke:${colour(series.method)};stroke-width:2;stroke-dasharray:4 3` }));
    }
    const medians = one.series.map((series) => `${series.label} ${short(Math.floor(series.median * 1000) / 1000)}`).join(", ");
    figure.replaceChildren(html("h4", {}, one.title), chart, html("p", { class: "small soft" }, `${one.note} Median: ${medians}.`));
  }

  // One of several choices, as buttons.
  function choice(name, options, chosen, onChange) {
    const box = html("span", { class: "group", role: "group", "aria-label": name }, html("span", { class: "soft" }, name));
    const buttons = options.map(([value, text]) => {
      const button = html("button", { type: "button", "aria-pressed": String(value === chosen) }, text);
      button.addEventListener("click", () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        onChange(value);
      });
      return button;
    });
    box.append(...buttons);
    return box;
  }

  function start(group, index) {
    const root = document.getElementById(`curves-${index}`), state = { level: group.first, memory: "after", hidden: new Set() };
    const hasMemory = group.levels.some((level) => level.series.some((one) => one.stage === "after"));
    const controls = root.querySelector(".controls"), legend = root.querySelector(".legend"), note = root.querySelector(".note");
    const draw = () => {
      const level = group.levels[state.level], after = new Set(level.series.filter((one) => one.stage === "after").map((one) => one.label));
      const series = level.series.filter((one) => state.memory === "after" ? one.stage !== "before" || !after.has(one.label) : one.stage !== "after");
      for (const one of series) {
        one.dashed = hasMemory && one.stage === "before";
        one.name = `${one.label}: ${one.protects}`;
        one.hidden = state.hidden.has(one.label);
      }
      legend.replaceChildren(...series.map((one) => {
        const button = html("button", { type: "button", "aria-pressed": String(!one.hidden), class: one.dashed ? "dashed" : "" }, html("i", { style: `color:${colour(one.method)}` }), one.name);
        button.addEventListener("click", () => { state.hidden[one.hidden ? "delete" : "add"](one.label); draw(); });
        return button;
      }), ...series.filter((one) => one.attacked && !one.hidden).map((one) => html("span", { class: "left" }, html("i", { style: `color:${colour(one.method)}` }), `${one.label}: ${group.left}`)));
      note.textContent = level.note;
      for (const figure of root.querySelectorAll("figure")) curve(figure, group, figure.dataset.size, series);
    };
    if (group.levels.length > 1) controls.append(choice("noise", group.levels.map((level, i) => [i, level.name]), state.level, (value) => { state.level = value; draw(); }));
    if (hasMemory) controls.append(choice("memory", [["after", "after"], ["before", "before"]], "after", (value) => { state.memory = value; draw(); }));
    const figures = [...document.querySelectorAll(`#noise-${index} figure`)];
    const all = () => { draw(); figures.forEach((figure, i) => histogram(figure, group.histograms[i])); };
    all();
    let width = root.clientWidth;
    new ResizeObserver(() => { if (Math.abs(root.clientWidth - width) > 4) { width = root.clientWidth; all(); } }).observe(root);
  }
  groups.forEach(start);

  // The gallery: a card opens its input; the buttons above choose which cards are shown.
  const dialog = document.querySelector("dialog");
  let open = null;
  function show(card) {
    open = card;
    dialog.querySelector(".content").replaceChildren(document.getElementById(card.dataset.detail).content.cloneNode(true));
    dialog.querySelector("h3").textContent = card.dataset.title;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }
  function step(by) {
    const cards = [...open.closest(".gallery").querySelectorAll("button:not([hidden])")];
    show(cards[(cards.indexOf(open) + by + cards.length) % cards.length]);
  }
  for (const gallery of document.querySelectorAll(".gallery")) {
    const cards = [...gallery.querySelectorAll("button")];
    cards.forEach((card) => card.addEventListener("click", () => show(card)));
    const names = { largest: "largest", smallest: "smallest", shaped: "least round", wrong: "wrong", abstained: "no answer", memory: "changed by the memory" };
    const there = Object.entries(names).filter(([tag]) => cards.some((card) => card.dataset.tags.split(" ").includes(tag)));
    const controls = gallery.parentElement.querySelector(".controls");
    if (there.length) controls.append(choice("show", [["", "all"], ...there], "", (tag) => cards.forEach((card) => { card.hidden = tag !== "" && !card.dataset.tags.split(" ").includes(tag); })));
  }
  if (dialog) {
    const [previous, next, close] = dialog.querySelectorAll("header button");
    previous.addEventListener("click", () => step(-1));
    next.addEventListener("click", () => step(1));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") step(-1);
      if (event.key === "ArrowRight") step(1);
    });
  }
})();
