
// The sections of what was found out: all heads at once, roles, guesses, steps, two texts.

const more = data.more, terms = more.words;
const ROLE_COLOURS = {
  previous: "#3b6fd4", next: "#2aa7c9", itself: "#8a63d2", diagonal: "#8a63d2", first: "#d9731a", last: "#b08900",
  same: "#2a9d6f", induction: "#d43b6f", broad: "#8b949e", mixed: "#57606a",
};
const SHARES = ["previous", "next", "itself", "diagonal", "first", "last", "same", "induction", "repeats"];

/** An element of a section that the page may lack. */
function optional(id) {
  return document.getElementById(id);
}

function roleName(role) {
  return role === "repeats" ? terms.repeats : terms[`role_${role}`];
}

function rolesOf(part, layer, head) {
  return more.roles.find((each) => each.part === part && each.layer === layer && each.head === head);
}

function shade(share) {
  const step = 3 * Math.round(255 * clamp(share, 0, 1));
  return `rgb(${colours[step]}, ${colours[step + 1]}, ${colours[step + 2]})`;
}

function signed(value) {
  return (value > 0 ? "+" : "") + (Math.abs(value) < 0.0005 && value !== 0 ? value.toExponential(1) : value.toFixed(3));
}

async function inflated(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function openHead(part, layer, head) {
  if (!layersOf(part).some((each) => each.layer === layer)) return; // left out of the page
  controls.part.value = part;
  offer(controls.layer, layersOf(part).map(({ layer }) => [layer, layer]), String(layer));
  offerHeads();
  controls.head.value = head;
  show(layersOf(part).find((each) => each.layer === layer));
  byId("readout").closest("section").scrollIntoView({ behavior: "smooth" });
  byId("map").focus({ preventScroll: true });
}

/** One row a layer, one small picture a head; its frame says what the head does, looks like, or is worth. */
async function showAll() {
  for (const part of ["encoder", "decoder", "cross"]) {
    const layers = more.thumbs.filter((each) => each.part === part);
    if (!layers.length) continue;
    const box = element("div", "grid-box");
    const grid = element("div", "grid");
    grid.style.gridTemplateColumns = `auto repeat(${Math.max(...layers.map((each) => each.heads.length))}, 1fr)`;
    for (const layer of layers) {
      const [rows, columns] = layer.size;
      const levels = await inflated(layer.levels);
      const line = element("span", "line", filled(terms.layer_short, layer));
      line.style.gridColumn = 1;
      grid.append(line);
      layer.heads.forEach((head, index) => {
        const button = element("button", "thumb"), canvas = element("canvas");
        paint(canvas, levels.subarray(index * rows * columns, (index + 1) * rows * columns), rows, columns, 255);
        const found = rolesOf(part, layer.layer, head);
        const name = `${words[`part_${part}`]}: ${filled(terms.head_at, { layer: layer.layer, head })}`;
        button.setAttribute("aria-label", found ? `${name}, ${roleName(found.role)}` : name);
        const tellAbout = () => byId("over-said").replaceChildren(...aboutHead(name, found));
        button.addEventListener("pointerenter", tellAbout);
        button.addEventListener("focus", tellAbout);
        button.addEventListener("click", () => openHead(part, layer.layer, head));
        button.append(canvas);
        button.found = found;
        grid.append(button);
      });
    }
    grid.addEventListener("keydown", (event) => walk(event, grid));
    box.append(grid);
    byId("all").append(element("h3", "", words[`part_${part}`]), box);
  }
  for (const button of byId("frames").children) button.addEventListener("click", () => frame(button.dataset.by));
  const known = more.roles.some((each) => each.effect !== null);
  byId("frames").querySelector("[data-by=effect]").hidden = !known;
  byId("frames").hidden = !more.roles.length;
  frame("role");
}

function aboutHead(name, found) {
  if (!found) return [element("span", "", name)];
  const made = [element("strong", "first", name), element("span", "of", roleName(found.role))];
  made.push(element("span", "of", `${terms.by_spread} ${(100 * found.spread).toFixed(0)} %`));
  if (found.effect !== null) {
    made.push(element("span", "of", `${terms.effect} ${found.exact ? "" : "~"}${signed(found.effect)}`));
  }
  return made;
}

/** The arrow keys go from head to head. */
function walk(event, grid) {
  const all = [...grid.querySelectorAll(".thumb")], at = all.indexOf(document.activeElement);
  const across = all.filter((each) => each.offsetTop === all[0].offsetTop).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (at < 0 || step === undefined || !all[at + step]) return;
  event.preventDefault();
  all[at + step].focus();
}

function frame(by) {
  for (const button of byId("frames").children) button.setAttribute("aria-pressed", button.dataset.by === by);
  const largest = Math.max(1e-12, ...more.roles.map((each) => Math.abs(each.effect ?? 0)));
  const used = new Set();
  for (const thumb of document.querySelectorAll(".thumb")) {
    const found = thumb.found;
    if (!found) continue;
    used.add(found.role);
    let colour = ROLE_COLOURS[found.role];
    if (by === "spread") colour = shade(found.spread);
    if (by === "effect") {
      const share = found.effect === null ? 0 : Math.sqrt(Math.abs(found.effect) / largest);
      colour = `color-mix(in srgb, ${found.effect < 0 ? "#3b6fd4" : "#d4553b"} ${Math.round(100 * share)}%, transparent)`;
    }
    thumb.style.borderColor = colour;
  }
  const keys = by === "role" ? Object.keys(ROLE_COLOURS).filter((role) => used.has(role)).map((role) => [
    ROLE_COLOURS[role], roleName(role)]) : by === "spread" ? [[shade(0), "0 %"], [shade(0.5), "50 %"], [shade(1), "100 %"]]
    : [["#d4553b", signed(largest)], ["transparent", "0"], ["#3b6fd4", signed(-largest)]];
  byId("keys").replaceChildren(...keys.map(([colour, text]) => {
    const key = element("span", "key"), patch = element("i");
    patch.style.background = colour;
    key.append(patch, text);
    return key;
  }));
}

/** A table that is sorted by a click on a heading; a row is a button where it leads somewhere. */
function table(box, columns, entries, chosen) {
  let by = null, down = true;
  const made = element("table"), body = element("tbody"), head = element("tr");
  for (const column of columns) {
    const cell = element("th", column.number === false ? "" : "figure"), button = element("button", "sort", column.name);
    cell.scope = "col";
    button.addEventListener("click", () => {
      down = by === column ? !down : column.number !== false;
      by = column;
      fill();
    });
    cell.append(button);
    head.append(cell);
    column.cell = cell;
  }
  function fill() {
    const sorted = [...entries];
    if (by) {
      sorted.sort((a, b) => {
        const [x, y] = [by.of(a), by.of(b)];
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        const less = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
        return down ? -less : less;
      });
    }
    for (const column of columns) {
      column.cell.setAttribute("aria-sort", column !== by ? "none" : down ? "descending" : "ascending");
    }
    body.replaceChildren(...sorted.map((entry) => {
      const row = element("tr");
      for (const [index, column] of columns.entries()) {
        const cell = element("td", column.number === false ? "" : "figure");
        const shown = column.show ? column.show(entry) : String(column.of(entry) ?? "–");
        if (index === 0) {
          const button = element("button", "go", shown);
          button.addEventListener("click", () => chosen(entry));
          cell.append(button);
        } else if (shown instanceof Node) cell.append(shown);
        else cell.textContent = shown;
        row.append(cell);
      }
      return row;
    }));
  }
  const top = element("thead");
  top.append(head);
  made.append(top, body);
  box.replaceChildren(made);
  fill();
}

function showRoles() {
  const box = optional("roles-table");
  if (!box) return;
  const parts = new Set(more.roles.map((each) => each.part)).size > 1;
  const used = SHARES.filter((name) => more.roles.some((each) => each.shares[name] !== undefined));
  const bar = (value) => {
    if (value === null || value === undefined) return "–";
    const made = element("span", "share", value.toFixed(2));
    made.style.setProperty("--share", `${100 * clamp(value, 0, 1)}%`);
    return made;
  };
  const order = { encoder: 0, decoder: 1, cross: 2 };
  table(box, [
    {
      name: terms.layer_head,
      number: false,
      of: (each) => order[each.part] * 1e6 + each.layer * 1e3 + each.head,
      show: (each) => `${parts ? `${words[`part_${each.part}`]} ` : ""}${each.layer}.${each.head}`,
    },
    { name: terms.role, number: false, of: (each) => roleName(each.role) },
    ...(more.roles.some((each) => each.effect !== null) ? [{
      name: terms.effect, of: (each) => each.effect,
      show: (each) => (each.effect === null ? "–" : (each.exact ? "" : "~") + signed(each.effect)),
    }] : []),
    ...used.map((name) => ({ name: roleName(name), of: (each) => each.shares[name], show: (each) => bar(each.shares[name]) })),
    { name: terms.distance, of: (each) => each.distance, show: (each) => each.distance?.toFixed(1) ?? "–" },
    { name: terms.entropy, of: (each) => each.entropy, show: (each) => each.entropy?.toFixed(2) ?? "–" },
    { name: terms.spread, of: (each) => each.spread, show: (each) => bar(each.spread) },
  ], more.roles, (each) => openHead(each.part, each.layer, each.head));
}

/** Rows are layers, columns what is read; a cell is the first guess. */
function showLens() {
  const box = optional("lens-table"), lens = more.lens;
  if (!box || !lens) return;
  box.classList.add("scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", terms.lens_table);
  const made = element("table"), head = element("tr");
  head.append(element("th", "", terms.after));
  lens.tokens.forEach((token) => head.append(withText("th", token)));
  const top = element("thead"), body = element("tbody"), cells = [];
  top.append(head);
  lens.ids.forEach((layer, index) => {
    const row = element("tr");
    row.append(element("th", "", filled(terms.layer_short, { layer: index })));
    cells.push(layer.map((best, column) => {
      const cell = withText("td", lens.names[best[0]]);
      const share = lens.shares[index][column][0] / 1000;
      cell.style.background = shade(share);
      cell.style.color = share > 0.6 ? "#101418" : "#ffffff";
      cell.dataset.at = `${index},${column}`;
      if (index >= lens.settled[column]) cell.classList.add("settled");
      row.append(cell);
      return cell;
    }));
    body.append(row);
  });
  made.append(top, body);
  box.append(made);
  let at = [lens.ids.length - 1, 0];
  const choose = (layer, column) => {
    cells[at[0]][at[1]].classList.remove("at");
    at = [clamp(layer, 0, cells.length - 1), clamp(column, 0, cells[0].length - 1)];
    const cell = cells[at[0]][at[1]];
    cell.classList.add("at");
    const said = [
      element("span", "of", filled(words.layer_number, { layer: at[0] })),
      token(lens.tokens[at[1]], at[1] + lens.first), " → ",
    ];
    lens.ids[at[0]][at[1]].forEach((id, place) => {
      const one = element("span", "one");
      one.append(withText("bdi", lens.names[id]), ` ${(lens.shares[at[0]][at[1]][place] / 10).toFixed(1)} % `);
      said.push(one);
    });
    said.push(element("span", "of", filled(terms.lens_settled, { layer: lens.settled[at[1]] })));
    byId("lens-said").replaceChildren(...said);
    return cell;
  };
  const pointed = (event) => {
    const where = event.target.dataset.at;
    if (where) choose(...where.split(",").map(Number));
  };
  body.addEventListener("pointerover", pointed);
  body.addEventListener("click", pointed);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(at[0] + step[0], at[1] + step[1]).scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  byId("lens-said").textContent = terms.lens_start;
}

function withText(tag, text) {
  const made = element(tag, "", text);
  made.dir = "auto";
  return made;
}

/** Three selects that choose one head of some layers, and what is told of it. */
class Chooser {
  constructor(name, layers, chosen) {
    this.layers = layers;
    this.chosen = chosen;
    this.part = byId(`${name}-part`);
    this.layer = byId(`${name}-layer`);
    this.head = byId(`${name}-head`);
    const parts = ["encoder", "decoder", "cross"].filter((part) => layers.some((each) => each.part === part));
    offer(this.part, parts.map((part) => [part, words[`part_${part}`]]), "decoder");
    this.part.addEventListener("change", () => this.offered());
    this.layer.addEventListener("change", () => this.offered());
    this.head.addEventListener("change", () => this.tell());
  }

  offered() {
    const mine = this.layers.filter((each) => each.part === this.part.value);
    offer(this.layer, mine.map(({ layer }) => [layer, layer]), this.layer.value);
    const layer = mine.find((each) => String(each.layer) === this.layer.value);
    offer(this.head, layer.heads.map((head) => [head, head]), this.head.value);
    return this.tell();
  }

  choose(part, layer, head) {
    this.part.value = part;
    offer(this.layer, [[layer, layer]], String(layer));
    this.head.replaceChildren(Object.assign(element("option", "", head), { value: head }));
    this.head.value = head;
    return this.offered();
  }

  get found() {
    return this.layers.find((each) => each.part === this.part.value && String(each.layer) === this.layer.value);
  }

  tell() {
    return this.chosen(this.found, Number(this.head.value));
  }
}

async function valuesOf(layer, head) {
  layer.values ??= await weightsOf(layer);
  const size = data.axes[layer.rows].length * data.axes[layer.columns].length;
  const index = layer.heads.indexOf(head);
  return layer.values.subarray(index * size, (index + 1) * size);
}

function showSteps() {
  const slider = optional("step");
  if (!slider || !more.steps.attention.length) return;
  const { prompt, read, written: wrote, attention } = more.steps;
  const steps = read.length - prompt + 1;
  slider.max = steps;
  let now;
  const drawn = new HeatMap(byId("step-map"), terms.map_steps, (row, column) => {
    byId("step-cell").replaceChildren(
      token(now.rows[row], row), " → ", token(now.columns[column], column),
      element("strong", "", written(now.values[row * now.columns.length + column])),
    );
  });
  async function draw() {
    const layer = chooser.found;
    const values = await valuesOf(layer, Number(chooser.head.value));
    const rows = data.axes[layer.rows], columns = data.axes[layer.columns];
    const step = Number(slider.value), done = layer.part === "encoder" ? rows.length : prompt + step - 1;
    now = { values: values.map((value, i) => (i < done * columns.length ? value : NaN)), rows, columns };
    drawn.show(now.values, rows, columns, largestOf(values));
    const before = step === 1 ? read.slice(0, prompt) : [read[done - 1]];
    const shown = before.length > 8 ? ["…", ...before.slice(-8)] : before;
    const last = layer.part === "encoder" ? wrote[prompt + step - 2] : wrote[done - 1];
    byId("step-said").textContent = filled(terms.step_said, { step, steps, read: shown.join(" "), written: last });
  }
  const chooser = new Chooser("step", attention, draw);
  slider.addEventListener("input", draw);
  slider.value = steps;
  chooser.offered();
}

function showPair() {
  const box = optional("moves");
  if (!box || !more.pair.attention[0].length) return;
  const [first, second] = more.pair.attention;
  const maps = [1, 2].map((number) => {
    const map = new HeatMap(byId(`pair-${number}`), terms[`text_${number}`], (row, column) => tellPair(number - 1, row, column));
    return map;
  });
  let shown = [], at;
  function tellPair(which, row, column) {
    const { values, rows, columns } = shown[which];
    byId("pair-said").replaceChildren(
      element("span", "of", `${terms[`text_${which + 1}`]}, ${filled(terms.head_at, at)}`), token(rows[row], row), " → ", token(columns[column], column),
      element("strong", "", written(values[row * columns.length + column])),
    );
  }
  async function draw(layer, head) {
    const other = second.find((each) => each.part === layer.part && each.layer === layer.layer);
    const both = [layer, other];
    const values = await Promise.all(both.map((each) => valuesOf(each, head)));
    shown = both.map((each, i) => ({ values: values[i], rows: data.axes[each.rows], columns: data.axes[each.columns] }));
    at = { layer: layer.layer, head };
    const largest = Math.max(...values.map(largestOf));
    maps.forEach((map, i) => map.show(shown[i].values, shown[i].rows, shown[i].columns, largest));
  }
  const kept = first.filter((each) => second.some((other) => other.part === each.part && other.layer === each.layer));
  const chooser = new Chooser("pair", kept, draw);
  const rows = data.axes[first[0].rows];
  const there = (place, values) => {
    if (!place) return "–";
    const made = element("span", "moved");
    made.append(withText("bdi", rows[place[0]]), ` ${values[0].toFixed(2)} → ${values[1].toFixed(2)}`);
    return made;
  };
  async function open(move) {
    if (!kept.some((each) => each.layer === move.layer)) return;
    await chooser.choose(move.part, move.layer, move.head);
    maps.forEach((map, i) => {
      map.at = [move.rows[i], (move.gains ?? move.leaves ?? move.rows)[i]];
      map.mark();
      map.reveal();
    });
    tellPair(1, ...maps[1].at);
  }
  table(box, [
    {
      name: terms.layer_head, number: false,
      of: (move) => move.layer * 1e3 + move.head, show: (move) => `${move.layer}.${move.head}`,
    },
    { name: terms.from_token, number: false, of: (move) => rows[move.rows[0]] },
    { name: terms.change, of: (move) => move.change, show: (move) => move.change.toFixed(3) },
    { name: terms.loses, of: (move) => move.left[0] - move.left[1], show: (move) => there(move.leaves, move.left) },
    { name: terms.wins, of: (move) => move.gained[1] - move.gained[0], show: (move) => there(move.gains, move.gained) },
    { name: terms.turns, of: (move) => (move.turns ? move.moved : null), show: (move) => (move.turns ? terms.turns_yes : "–") },
  ], more.pair.moves, open);
  open(more.pair.moves[0]);
}

if (typeof DecompressionStream !== "undefined") {
  showAll();
  showRoles();
  showLens();
  showSteps();
  showPair();
}
