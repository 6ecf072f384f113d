"use strict";
// Asks the service about an image, by the same protocol as every other client, and draws the region that it promises.
const config = JSON.parse(document.getElementById("config").textContent);
const byId = (id) => document.getElementById(id);
const LENGTH = "Inference-Header-Content-Length";
const WIDE = ["region", "theta"]; // as large as the input: as bytes
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const NOTES = {
  kept: "The memory kept the region as it was certified.",
  shrunk: "The memory shrank the region, to make room for an earlier promise of another class.",
  inherited: "The input lies in a region promised earlier: the memory answers that region's class, and nothing was certified.",
  abstained: "No answer, and no promise.",
  none: "No promise covers this input, and nothing was certified.",
};

function problem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
}

async function fetched(path, options = {}) {
  const headers = { ...options.headers, Authorization: `Bearer ${byId("key").value.trim()}` };
  const response = await fetch(path, { ...options, headers });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(`${response.status}: ${said.error || response.statusText}`);
  }
  return response;
}

// Everything that a user starts: one thing at a time, and what goes wrong is said.
let busy = false;
async function attempt(work) {
  if (busy) return;
  busy = true;
  problem("");
  try { await work(); } catch (error) { problem(error.message); } finally { busy = false; }
}

const sizes = () => {
  const shape = config.shape, image = shape.length === 2 || (shape.length === 3 && [1, 3].includes(shape[0]));
  return { image, channels: shape.length === 3 ? shape[0] : 1, height: shape.at(-2), width: shape.at(-1) };
};

async function fromFile(file) {
  const { image, channels, height, width } = sizes();
  if (!image) throw new Error("this network takes no images");
  const bitmap = await createImageBitmap(file);
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height).data;
  const x = new Float32Array(channels * height * width), [low, high] = config.domain;
  for (let i = 0; i < height * width; i++) {
    const rgb = [pixels[4 * i], pixels[4 * i + 1], pixels[4 * i + 2]];
    const grey = (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]);
    for (let c = 0; c < channels; c++) x[c * height * width + i] = low + (high - low) * (channels === 1 ? grey : rgb[c]) / 255;
  }
  return x;
}

async function ask(x) {
  const names = ["prediction", "radius", "proxy_radius", "note", "region", "theta", "evidence", "sentence"];
  const head = new TextEncoder().encode(JSON.stringify({
    inputs: [{ name: "x", datatype: "FP32", shape: [1, ...config.shape], parameters: { binary_data_size: x.byteLength } }],
    outputs: names.map((name) => ({ name, parameters: { binary_data: WIDE.includes(name) } })),
    parameters: { lookup: byId("lookup").checked },
  }));
  const response = await fetched(`/v2/models/${encodeURIComponent(config.name)}/infer`, {
    method: "POST", body: new Blob([head, x]), headers: { [LENGTH]: String(head.length) },
  });
  const raw = await response.arrayBuffer(), length = Number(response.headers.get(LENGTH));
  const said = JSON.parse(new TextDecoder().decode(raw.slice(0, length)));
  let at = length;
  return Object.fromEntries(said.outputs.map((one) => {
    if (one.data) return [one.name, one.data];
    const bytes = raw.slice(at, at += one.parameters.binary_data_size);
    return [one.name, one.datatype === "FP64" ? new Float64Array(bytes) : new Float32Array(bytes)];
  }));
}

// Not Math.min(...values): a call takes fewer arguments than an image has values.
const least = (values) => values.reduce((a, b) => Math.min(a, b));
const most = (values) => values.reduce((a, b) => Math.max(a, b));

const ramp = (level) => {
  const at = Math.min(Math.max(level, 0), 1) * (RAMP.length - 1), i = Math.min(Math.floor(at), RAMP.length - 2);
  return RAMP[i].map((from, c) => from + (at - i) * (RAMP[i + 1][c] - from));
};

function canvasOf(colour) {
  const { height, width } = sizes();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const data = new ImageData(width, height);
  for (let i = 0; i < height * width; i++) data.data.set([...colour(i), 255], 4 * i);
  canvas.getContext("2d").putImageData(data, 0, 0);
  return canvas;
}

function photo(x) {
  const { channels, height, width } = sizes(), [low, high] = config.domain, plane = height * width;
  const grey = (v) => 255 * (v - low) / (high - low);
  return canvasOf((i) => channels === 1 ? Array(3).fill(grey(x[i])) : [0, 1, 2].map((c) => grey(x[c * plane + i])));
}

// Geometric mean over the channels, on a logarithmic scale: a few values are many times the others.
function heat(values) {
  const { channels, height, width } = sizes(), plane = height * width;
  const logs = Array.from({ length: plane }, (_, i) => {
    let sum = 0;
    for (let c = 0; c < channels; c++) sum += Math.log(values[c * plane + i]);
    return sum / channels;
  });
  const low = least(logs), high = most(logs);
  return canvasOf((i) => ramp(high > low ? (logs[i] - low) / (high - low) : 0.5));
}

// The shortest change that leaves the region: along its smallest semi-axis. Toward the middle of the range, where it can be seen.
function smallestChange(x, axes) {
  const at = axes.reduce((best, axis, i) => axis < axes[best] ? i : best, 0), [low, high] = config.domain;
  const changed = Float64Array.from(x);
  changed[at] += (x[at] > (low + high) / 2 ? -1 : 1) * axes[at];
  return changed;
}

// A change of every value at once that stays inside: delta_i = axes_i / n^(1/norm), rounded down.
function coveredChange(x, axes) {
  const share = 0.98 / Math.pow(x.length, 1 / config.norm), [low, high] = config.domain;
  return Float64Array.from(x, (v, i) => v + (v > (low + high) / 2 ? -1 : 1) * axes[i] * share);
}

function figure(canvas, caption) {
  const one = document.createElement("figure"), words = document.createElement("figcaption");
  words.textContent = caption;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", caption);
  one.append(canvas, words);
  return one;
}

function list(place, facts) {
  place.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => {
    const term = document.createElement("dt"), said = document.createElement("dd");
    term.textContent = name.replaceAll("_", " ");
    said.textContent = value === null ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return [term, said];
  }));
}

const floor4 = (value) => (Math.floor(value * 1e4) / 1e4).toFixed(4);
const nameOf = (label) => label < 0 ? "no answer" : config.classes[label] && config.classes[label] !== String(label)
  ? `${label} (${config.classes[label]})` : `class ${label}`;

function show(x, said) {
  const radius = said.radius[0], axes = said.region, theta = said.theta;
  byId("said").textContent = nameOf(said.prediction[0])
    + (radius > 0 ? `, within l${config.norm} radius ${floor4(radius)}` : "");
  byId("memory").textContent = NOTES[said.note[0]] || said.note[0];
  byId("sentence").textContent = said.sentence[0];
  list(byId("evidence"), JSON.parse(said.evidence[0]));
  const pictures = [];
  if (sizes().image) {
    pictures.push(figure(photo(x), "the input"));
    if (theta.every((v) => v > 0)) pictures.push(figure(heat(theta), "noise θ: dark is little, bright is much"));
    if (axes.every((v) => v > 0)) {
      if (most(axes) > least(axes)) pictures.push(figure(heat(axes), "how far each value may change"));
      pictures.push(figure(photo(smallestChange(x, axes)), `the smallest change that could matter: one value, by ${floor4(least(axes))}`));
      pictures.push(figure(photo(coveredChange(x, axes)), "a change of all values that does not matter"));
    }
  }
  byId("pictures").replaceChildren(...pictures);
  byId("answer").hidden = false;
}

const answer = (made) => attempt(async () => { const x = await made(); show(x, await ask(x)); });

byId("who").addEventListener("submit", (event) => event.preventDefault());
byId("drop").addEventListener("click", () => byId("file").click());
byId("drop").addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) byId("file").click(); });
byId("file").addEventListener("click", (event) => event.stopPropagation());
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) answer(() => fromFile(file));
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  byId("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", kind === "dragover");
    const file = kind === "drop" && event.dataTransfer.files[0];
    if (file) answer(() => fromFile(file));
  });
}
byId("load").addEventListener("click", () => attempt(async () => {
  const said = await (await fetched("/examples")).json();
  if (!said.x.length) throw new Error("this service has no examples: start it with --data");
  byId("examples").replaceChildren(...said.x.map((raw, i) => {
    const x = new Float32Array(Uint8Array.from(atob(raw), (c) => c.charCodeAt(0)).buffer);
    const button = document.createElement("button");
    button.type = "button";
    button.title = `label: ${nameOf(said.labels[i])}`;
    button.append(sizes().image ? photo(x) : document.createTextNode(`example ${i + 1}`));
    button.addEventListener("click", () => answer(() => x));
    return button;
  }));
}));
byId("operate").addEventListener("click", () => attempt(async () => {
  list(byId("facts"), await (await fetched("/memory")).json());
  byId("state").hidden = false;
}));
