"use strict";

// Everything that comes from a text reaches the page through textContent, which is never read as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const words = data.words;
const colours = bytes(data.colours); // red, green, blue of 256 steps from 0 to the largest
const NOT_A_NUMBER = 65535;
const SMALLEST_LABEL = 11, COMFORTABLE = 12, LARGE = 28, LARGEST = 48; // pixels of a cell
const MANY = 120; // columns from which on a picture is first shown whole, however small
const WIDEST_PICTURE = 16000; // pixels; browsers draw no larger ones
const MOST_LOOKED_AT = 5;
const STACKED = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]/; // scripts whose lines may run down

function byId(id) {
  return document.getElementById(id);
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Weights are whole numbers of 1 / scale; all low bytes come first, then all high bytes, deflated. */
async function weightsOf(layer) {
  const stream = new Blob([bytes(layer.weights)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = packed.length / 2;
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    const whole = packed[i] + 256 * packed[size + i];
    values[i] = whole === NOT_A_NUMBER ? NaN : whole / data.scale;
  }
  return values;
}

/** One pixel for each number; the page makes it larger. What is no number stays empty. */
function paint(canvas, values, rows, columns, largest) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue;
    const step = 3 * Math.round(255 * Math.min(1, values[i] / largest));
    image.data.set([colours[step], colours[step + 1], colours[step + 2], 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

function largestOf(values) {
  let largest = 0;
  for (const value of values) if (value > largest && value < Infinity) largest = value;
  return largest || 1;
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

const ruler = document.createElement("canvas").getContext("2d");

function widestOf(labels, size) {
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return labels.reduce((widest, label) => Math.max(widest, ruler.measureText(label).width), 0);
}

/** A matrix with its labels, which stay in sight when it is moved; the pointer and the arrow keys choose a cell. */
class HeatMap {
  constructor(box, name, chosen, lowest = 0) {
    this.box = box;
    this.lowest = lowest; // pixels of a row, however narrow the columns are
    this.chosen = chosen;
    this.cell = 0; // pixels, chosen by the reader; 0 = what fits
    box.classList.add("scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "application");
    box.setAttribute("aria-label", name);
    this.map = element("div", "map");
    this.corner = element("div", "corner");
    this.top = element("div", "top");
    this.side = element("div", "side");
    this.cells = element("div", "cells");
    this.canvas = element("canvas");
    this.bands = [element("div", "band"), element("div", "band")];
    this.cells.append(this.canvas, ...this.bands);
    this.map.append(this.corner, this.top, this.side, this.cells);
    box.append(this.map);
    for (const event of ["pointermove", "pointerdown"]) this.cells.addEventListener(event, (e) => this.pointed(e));
    box.addEventListener("keydown", (e) => this.pressed(e));
    let width = 0;
    new ResizeObserver(() => {
      if (box.clientWidth === width || !this.rows) return;
      width = box.clientWidth;
      this.layout();
    }).observe(box);
  }

  show(values, rows, columns, largest) {
    this.rows = rows;
    this.columns = columns;
    paint(this.canvas, values, rows.length, columns.length, largest);
    this.layout();
  }

  layout() {
    const narrow = this.box.clientWidth < 560;
    this.sideWidth = Math.min(Math.ceil(widestOf(this.rows, 14)) + 14, narrow ? 96 : 180);
    const fitting = (this.box.clientWidth - this.sideWidth - 2) / this.columns.length;
    const first = clamp(fitting, this.columns.length > MANY ? 1 : COMFORTABLE, LARGE);
    const most = Math.min(LARGEST, WIDEST_PICTURE / Math.max(this.rows.length, this.columns.length));
    this.size = Math.min(this.cell || first, most);
    this.fitting = Math.min(fitting, LARGE, most);
    this.high = Math.max(this.size, this.lowest);
    const letters = clamp(this.size * 0.75, 10, 14);
    const every = Math.ceil(SMALLEST_LABEL / this.size);
    this.steep = new Set(this.columns.filter((label) => widestOf([label], letters) > every * this.size - 4));
    this.topHeight = Math.min(Math.max(22, Math.ceil(widestOf([...this.steep], letters)) + 14), narrow ? 96 : 150);
    this.map.style.gridTemplate = `${this.topHeight}px auto / ${this.sideWidth}px auto`;
    this.map.style.fontSize = `${letters}px`;
    this.canvas.classList.toggle("small", this.size < 2);
    this.sides = [
      { box: this.side, labels: this.rows, place: "top", extent: "height", size: this.high },
      { box: this.top, labels: this.columns, place: "left", extent: "width", size: this.size },
    ];
    for (const side of this.sides) this.label(side);
    if (this.at) this.mark();
  }

  /** Labels for all positions, or, where they would overlap, for every second, third, ... */
  label(side) {
    const { box, labels, extent, size } = side;
    box.style[extent] = this.cells.style[extent] = `${size * labels.length}px`;
    box.replaceChildren();
    const every = Math.ceil(SMALLEST_LABEL / size);
    const first = Math.min(Math.floor((every - 1) / 2), labels.length - 1); // in the middle of those it stands for
    for (let i = first; i === first || i - first + every <= labels.length; i += every) box.append(this.one(side, i));
    box.append(element("span", "chosen"));
  }

  /** A label in the middle of its row or column; one of a column that is too long for it stands upright. */
  one({ labels, place, extent, size }, index) {
    const made = element("span", "", labels[index]);
    made.dir = "auto";
    if (extent === "width" && this.steep.has(labels[index])) {
      made.className = STACKED.test(labels[index]) ? "stacked" : "steep";
    }
    const room = Math.max(size, SMALLEST_LABEL);
    made.style[place] = `${clamp((index + 0.5) * size - room / 2, 0, Math.max(0, size * labels.length - room))}px`;
    made.style[extent] = made.style.lineHeight = `${room}px`;
    return made;
  }

  pointed(event) {
    const box = this.cells.getBoundingClientRect();
    this.choose(Math.floor((event.clientY - box.top) / this.high), Math.floor((event.clientX - box.left) / this.size));
  }

  pressed(event) {
    const [row, column] = this.at || [0, -1];
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, this.columns.length - 1],
      PageUp: [row - 10, column],
      PageDown: [row + 10, column],
    };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.choose(...moves[event.key]);
    this.reveal();
  }

  choose(row, column) {
    this.at = [clamp(row, 0, this.rows.length - 1), clamp(column, 0, this.columns.length - 1)];
    this.mark();
    this.chosen(...this.at);
  }

  mark() {
    this.sides.forEach((side, i) => {
      const { box, place, extent, size } = side;
      const index = this.at[i];
      this.bands[i].style.cssText = `${place}: ${index * size}px; ${extent}: ${Math.max(size, 1)}px`;
      this.bands[i].classList.add(extent);
      const label = this.one(side, index);
      label.classList.add("chosen");
      box.lastChild.replaceWith(label);
    });
  }

  /** Move the box until the chosen cell is in sight beside the labels. */
  reveal() {
    const [row, column] = this.at, box = this.box;
    const x = column * this.size, y = row * this.high;
    box.scrollLeft = clamp(box.scrollLeft, x + this.size - (box.clientWidth - this.sideWidth), x);
    box.scrollTop = clamp(box.scrollTop, y + this.high - (box.clientHeight - this.topHeight), y);
  }

  zoom(factor) {
    this.cell = factor === 0 ? this.fitting : clamp(this.size * factor, Math.min(1, this.fitting), LARGEST);
    this.layout();
    if (this.at) this.reveal();
  }
}

function token(label, index) {
  const made = element("span", "token");
  const text = element("bdi", "", label);
  made.append(text, element("small", "", index));
  return made;
}

const controls = { part: byId("part"), layer: byId("layer"), head: byId("head") };
const readout = byId("readout");
const shown = { layer: undefined, values: undefined, at: undefined };
const map = new HeatMap(byId("map"), words.map, (row, column) => tell(Number(controls.head.value), row, column));
let turn = 0;

function layersOf(part) {
  return data.attention.filter((layer) => layer.part === part);
}

function offer(select, options, wanted) {
  select.replaceChildren(...options.map(([value, text]) => Object.assign(element("option", "", text), { value })));
  select.value = options.some(([value]) => String(value) === wanted) ? wanted : options[0][0];
}

function offerLayers() {
  const layers = layersOf(controls.part.value);
  offer(controls.layer, layers.map(({ layer }) => [layer, layer]), controls.layer.value);
  offerHeads();
}

function offerHeads() {
  const [layer] = layersOf(controls.part.value).filter(({ layer }) => String(layer) === controls.layer.value);
  offer(controls.head, [["all", words.all_heads], ...layer.heads.map((head) => [head, head])], controls.head.value);
  show(layer);
}

async function show(layer) {
  const mine = ++turn;
  if (shown.layer !== layer) {
    const values = await weightsOf(layer);
    if (mine !== turn) return; // something else was chosen meanwhile
    if (shown.layer && (shown.layer.rows !== layer.rows || shown.layer.columns !== layer.columns)) forget();
    Object.assign(shown, { layer, values });
  }
  const all = controls.head.value === "all";
  byId("heads").hidden = !all;
  byId("map").hidden = byId("zoom").hidden = all;
  byId("axes").textContent = words[`axes_${layer.part}`];
  const of = all ? shown.values : headValues(layer.heads.indexOf(Number(controls.head.value)));
  const largest = largestOf(of);
  byId("largest").textContent = largest.toPrecision(2);
  if (all) showHeads(largest);
  else map.show(of, data.axes[layer.rows], data.axes[layer.columns], largest);
  if (shown.at && !all) tell(Number(controls.head.value), ...shown.at);
}

function forget() {
  shown.at = map.at = undefined;
  byId("map").scrollTo(0, 0);
  readout.replaceChildren(element("p", "hint", words.hover));
}

function headValues(index) {
  const size = data.axes[shown.layer.rows].length * data.axes[shown.layer.columns].length;
  return shown.values.subarray(index * size, (index + 1) * size);
}

function showHeads(largest) {
  const { layer } = shown;
  const rows = data.axes[layer.rows].length, columns = data.axes[layer.columns].length;
  byId("heads").replaceChildren(...layer.heads.map((head, index) => {
    const button = element("button", "head");
    const frame = element("span", "frame"), canvas = element("canvas"), dot = element("span", "dot");
    const caption = element("span", "caption", filled(words.head_number, { head }));
    button.title = words.open_head;
    paint(canvas, headValues(index), rows, columns, largest);
    frame.style.aspectRatio = clamp(columns / rows, 0.5, 2);
    canvas.classList.toggle("small", columns > 100);
    frame.append(canvas, dot);
    button.append(frame, caption, element("span", "number"));
    frame.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
      tell(head, clamp(row, 0, rows - 1), clamp(column, 0, columns - 1));
    });
    button.addEventListener("click", () => {
      controls.head.value = head;
      show(layer);
      byId("map").focus({ preventScroll: true });
    });
    return button;
  }));
  if (shown.at) compare(...shown.at);
}

/** Write the same cell's number under every head. */
function compare(row, column) {
  const rows = data.axes[shown.layer.rows].length, columns = data.axes[shown.layer.columns].length;
  [...byId("heads").children].forEach((button, index) => {
    const dot = button.querySelector(".dot");
    dot.classList.add("placed");
    dot.style.left = `${(100 * (column + 0.5)) / columns}%`;
    dot.style.top = `${(100 * (row + 0.5)) / rows}%`;
    button.querySelector(".number").textContent = written(headValues(index)[row * columns + column]);
  });
}

function written(value) {
  return value.toFixed(Math.round(Math.log10(data.scale)));
}

/** Spell out one cell, and what its row looks at most. */
function tell(head, row, column) {
  const { layer } = shown;
  shown.at = map.at = [row, column];
  const rows = data.axes[layer.rows], columns = data.axes[layer.columns];
  const line = headValues(layer.heads.indexOf(head)).subarray(row * columns.length, (row + 1) * columns.length);
  const first = element("p", "cell");
  first.append(
    element("span", "of", filled(words.head_number, { head })),
    token(rows[row], row), " → ", token(columns[column], column),
    element("strong", "", written(line[column])),
  );
  const most = element("p", "most");
  const order = [...line.keys()].filter((key) => line[key] > 0).sort((a, b) => line[b] - line[a]);
  most.append(element("span", "of", order.length ? words.looks_at : words.looks_at_nothing));
  for (const key of order.slice(0, MOST_LOOKED_AT)) {
    const one = element("span", "one");
    const bar = element("i", "bar");
    bar.style.width = `${Math.max(2, 48 * line[key])}px`;
    one.append(token(columns[key], key), bar, written(line[key]));
    most.append(one);
  }
  readout.replaceChildren(first, most);
  if (controls.head.value === "all") compare(row, column);
}

function showSizes() {
  for (const part of ["encoder", "decoder"]) {
    const layers = data.sizes.filter((layer) => layer.part === part);
    if (!layers.length) continue;
    const columns = data.axes[layers[0].columns];
    const rows = layers.map(({ layer }) => filled(words.layer_number, { layer }));
    const values = Float32Array.from(layers.flatMap(({ tokens }) => tokens), (value) => value ?? NaN);
    const box = element("div"), said = element("p", "said", words.hover_sizes);
    said.setAttribute("role", "status");
    byId("sizes").append(element("h3", "", words[`part_${part}`]), said, box);
    const drawn = new HeatMap(box, words.map_sizes, (row, column) => {
      said.replaceChildren(
        element("span", "of", rows[row]), token(columns[column], column),
        element("strong", "", values[row * columns.length + column].toPrecision(3)),
      );
    }, 16);
    drawn.show(values, rows, columns, largestOf(values));
  }
}

function start() {
  if (typeof DecompressionStream === "undefined") {
    readout.textContent = words.old_browser;
    return;
  }
  const scale = byId("colours");
  paint(scale, Float32Array.from({ length: 64 }, (_, i) => i), 1, 64, 63);
  const parts = ["encoder", "decoder", "cross"].filter((part) => layersOf(part).length);
  offer(controls.part, parts.map((part) => [part, words[`part_${part}`]]), parts.at(-1));
  controls.part.addEventListener("change", offerLayers);
  controls.layer.addEventListener("change", offerHeads);
  controls.head.addEventListener("change", () => show(shown.layer));
  byId("smaller").addEventListener("click", () => map.zoom(1 / 1.4));
  byId("fit").addEventListener("click", () => map.zoom(0));
  byId("larger").addEventListener("click", () => map.zoom(1.4));
  forget();
  offerLayers();
  showSizes();
}

start();
