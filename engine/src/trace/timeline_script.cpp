#include "timeline_page.hpp"

namespace sluice::trace {

const std::string_view kTimelineScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('timeline-data').textContent);
const column = Object.fromEntries(data.columns.map((name, index) => [name, index]));
const byId = (id) => document.getElementById(id);
const kGutter = 68, kRight = 10, kAxis = 24;
const kPasses = {
  F: {name: 'forward', color: 'forward'},
  B: {name: 'input gradient', color: 'input'},
  whole: {name: 'whole backward', color: 'backward'},
  W: {name: 'weight gradient', color: 'weight'},
};
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const kPaleness = variable('paleness').split(' ').map(Number);
const kInkPaleness = Number(variable('ink-paleness'));
let colors = {};
let view = {start: 0, width: 1};
let full = 1;
let redraw_asked = false;

function element(tag, parent, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

function format_time(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) return '0';
  if (size < 1e-3) return (seconds * 1e6).toFixed(1) + ' \u00b5s';
  if (size < 1) return (seconds * 1e3).toFixed(size < 0.1 ? 3 : 2) + ' ms';
  return seconds.toFixed(4) + ' s';
}

function read_task(span) {
  const pass = span[column.pass], whole = span[column.whole];
  return {
    kind: kPasses[pass === 'B' && whole ? 'whole' : pass], pass, stage: span[column.stage],
    chunk: span[column.chunk], microbatch: span[column.microbatch],
    start: span[column.start_s], end: span[column.end_s],
  };
}

// The spans of every iteration, by stage and start, with times from the iteration's first task.
function index_method(method) {
  const iterations = new Map();
  for (const summary of method.iterations) {
    const rows = Array.from({length: method.stages}, () => ({tasks: [], longest: 0}));
    iterations.set(summary.iteration, {summary, rows});
  }
  const chunks = Array.from({length: method.stages}, () => new Set());
  for (const span of method.spans) {
    const task = read_task(span);
    const {summary, rows} = iterations.get(span[column.iteration]);
    task.start -= summary.start_s;
    task.end -= summary.start_s;
    rows[task.stage].tasks.push(task);
    chunks[task.stage].add(task.chunk);
  }
  for (const {rows} of iterations.values()) {
    for (const row of rows) {
      row.tasks.sort((a, b) => a.start - b.start);
      row.longest = row.tasks.reduce((longest, task) => Math.max(longest, task.end - task.start), 0);
    }
  }
  const ordinals = chunks.map((set) => new Map([...set].sort((a, b) => a - b).map((chunk, i) => [chunk, i])));
  return {iterations, ordinals};
}

function make_panel(method) {
  const section = element('section', byId('methods'));
  const title = element('div', section, undefined, 'title');
  element('h2', title, method.name);
  const figures = element('span', title);
  const plot = element('div', section, undefined, 'plot');
  const canvas = element('canvas', plot);
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', 'Timeline of ' + method.name);
  const cursor = element('div', plot, undefined, 'cursor');
  cursor.hidden = true;
  const row_height = Math.max(8, Math.min(26, Math.floor(640 / method.stages)));
  const panel = {method, figures, canvas, cursor, row_height, ...index_method(method)};
  canvas.style.height = row_height * method.stages + kAxis + 'px';
  connect(panel);
  return panel;
}

const plot_width = (panel) => Math.max(1, panel.canvas.clientWidth - kGutter - kRight);
const to_x = (panel, time) => kGutter + (time - view.start) / view.width * plot_width(panel);
const to_time = (panel, x) => view.start + (x - kGutter) / plot_width(panel) * view.width;
const current = (panel) => panel.iterations.get(Number(byId('iteration').value));

// The first task of a row that may reach past `time`.
function first_after(row, time) {
  let low = 0, high = row.tasks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.tasks[middle].start < time - row.longest) low = middle + 1; else high = middle;
  }
  return low;
}

function tick_step(panel) {
  const rough = view.width / Math.max(2, plot_width(panel) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

// All ticks share a unit and as many decimals as the step needs.
function tick_label(time, step) {
  const last = view.start + view.width;
  const [scale, unit] = last < 2e-3 ? [1e6, '\u00b5s'] : last < 2 ? [1e3, 'ms'] : [1, 's'];
  const decimals = Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9));
  return (time * scale).toFixed(decimals) + ' ' + unit;
}

function draw_frame(panel, context, width, bottom) {
  const {method, row_height} = panel;
  context.textBaseline = 'middle';
  for (let stage = 0; stage < method.stages; ++stage) {
    const y = stage * row_height;
    context.fillStyle = colors.row;
    context.fillRect(kGutter, y + 1, plot_width(panel), row_height - 2);
    if (row_height < 12 && stage % 4 !== 0) continue;
    context.fillStyle = colors.faint;
    context.textAlign = 'right';
    context.fillText('stage ' + stage, kGutter - 8, y + row_height / 2);
  }
  const step = tick_step(panel);
  context.textAlign = 'center';
  for (let tick = Math.ceil(view.start / step); tick * step <= view.start + view.width; ++tick) {
    const x = Math.round(to_x(panel, tick * step));
    context.fillStyle = colors.line;
    context.fillRect(x, 0, 1, bottom + 4);
    context.fillStyle = colors.faint;
    const text = tick_label(tick * step, step), half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, half), width - half), bottom + 15);
  }
}

function draw_row(panel, context, row, stage, digit_width) {
  const y = stage * panel.row_height + 1, height = panel.row_height - 2;
  const last = view.start + view.width;
  for (let i = first_after(row, view.start); i < row.tasks.length && row.tasks[i].start < last; ++i) {
    const task = row.tasks[i];
    const left = Math.max(to_x(panel, task.start), kGutter - 2);
    const right = Math.min(to_x(panel, task.end), kGutter + plot_width(panel) + 2);
    if (right < kGutter) continue;
    const gap = right - left > 6 ? 1 : 0;
    const paleness = kPaleness[Math.min(panel.ordinals[stage].get(task.chunk), kPaleness.length - 1)];
    context.globalAlpha = 1 - paleness;
    context.fillStyle = colors[task.kind.color];
    context.fillRect(left, y, Math.max(right - left - gap, 0.5), height);
    context.globalAlpha = 1;
    if (height < 11 || right - left < digit_width + 5) continue;
    const text = String(task.microbatch);
    if (right - left < text.length * digit_width + 5) continue;
    context.fillStyle = paleness > kInkPaleness ? colors.ink : colors['on-' + task.kind.color];
    context.fillText(text, (left + right - gap) / 2, y + height / 2 + 0.5);
  }
}

function draw_end(panel, context, makespan, bottom) {
  const x = Math.round(to_x(panel, makespan)) + 0.5;
  if (x < kGutter || x > kGutter + plot_width(panel)) return;
  context.strokeStyle = colors.ink;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(x, 0);
  context.lineTo(x, bottom + 4);
  context.stroke();
  context.setLineDash([]);
}

function draw(panel) {
  const {canvas, method, row_height} = panel;
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight, bottom = row_height * method.stages;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  context.font = '12px system-ui, "Segoe UI", sans-serif';
  draw_frame(panel, context, width, bottom);
  const shown = current(panel);
  if (!shown) return;
  context.save();
  context.beginPath();
  context.rect(kGutter, 0, plot_width(panel), bottom);
  context.clip();
  context.font = '600 11px system-ui, "Segoe UI", sans-serif';
  context.textAlign = 'center';
  const digit_width = context.measureText('0').width;
  shown.rows.forEach((row, stage) => draw_row(panel, context, row, stage, digit_width));
  context.restore();
  draw_end(panel, context, shown.summary.makespan_s, bottom);
}

function redraw() {
  if (redraw_asked) return;
  redraw_asked = true;
  requestAnimationFrame(() => {
    redraw_asked = false;
    panels.forEach(draw);
  });
}

function read_colors() {
  for (const name of ['ink', 'faint', 'line', 'row', 'forward', 'backward', 'input', 'weight',
                      'on-forward', 'on-backward', 'on-input', 'on-weight']) {
    colors[name] = variable(name);
  }
  redraw();
}

function set_view(start, width) {
  view.width = Math.min(Math.max(width, full * 1e-5), full);
  view.start = Math.min(Math.max(start, 0), full - view.width);
  hide_pointer();
  redraw();
}

const reset_view = () => set_view(0, full);

function zoom(time, factor) {
  const width = Math.min(Math.max(view.width * factor, full * 1e-5), full);
  set_view(time - (time - view.start) * width / view.width, width);
}

function show_figures(panel, first) {
  panel.figures.replaceChildren();
  const shown = current(panel);
  if (!shown) {
    panel.figures.textContent = 'did not run in this iteration';
    return;
  }
  const figure = (name, value) => {
    panel.figures.append(name + ' ');
    element('b', panel.figures, value);
    panel.figures.append('\u2002\u2002');
  };
  figure('makespan', format_time(shown.summary.makespan_s));
  figure('bubble', (shown.summary.bubble_share * 100).toFixed(1) + ' %');
  if (!first || first === shown) return;
  const ratio = first.summary.makespan_s / shown.summary.makespan_s;
  if (isFinite(ratio)) figure('speed-up over ' + panels[0].method.name, ratio.toFixed(2) + '\u00d7');
}

function choose_iteration() {
  const first = panels.length > 0 ? current(panels[0]) : undefined;
  full = Math.max(0, ...panels.map((panel) => current(panel)?.summary.makespan_s ?? 0)) * 1.01 || 1;
  panels.forEach((panel) => show_figures(panel, first));
  reset_view();
}

function hide_pointer() {
  byId('tooltip').hidden = true;
  panels.forEach((panel) => { panel.cursor.hidden = true; });
}

function task_at(panel, x, y) {
  const row = current(panel)?.rows[Math.floor(y / panel.row_height)];
  if (!row || x < kGutter) return undefined;
  const time = to_time(panel, x), slack = view.width / plot_width(panel);
  for (let i = first_after(row, time - slack); i < row.tasks.length; ++i) {
    if (row.tasks[i].start > time + slack) break;
    if (row.tasks[i].end >= time - slack) return row.tasks[i];
  }
  return undefined;
}

function show_tooltip(panel, task, event) {
  const tooltip = byId('tooltip');
  tooltip.replaceChildren();
  element('b', tooltip, task.pass + task.microbatch + ' \u00b7 ' + task.kind.name);
  const table = element('table', tooltip);
  for (const [name, value] of [
    ['microbatch', task.microbatch], ['chunk', task.chunk], ['stage', task.stage],
    ['start', format_time(task.start)], ['end', format_time(task.end)],
    ['duration', format_time(task.end - task.start)],
  ]) {
    const row = element('tr', table);
    element('td', row, name);
    element('td', row, String(value));
  }
  tooltip.hidden = false;
  const {width, height} = tooltip.getBoundingClientRect();
  const flip = event.clientX + 16 + width > window.innerWidth;
  tooltip.style.left = Math.max(4, event.clientX + (flip ? -16 - width : 16)) + 'px';
  tooltip.style.top = Math.max(4, Math.min(event.clientY + 16, window.innerHeight - height - 4)) + 'px';
}

function hover(panel, event) {
  hide_pointer();
  const x = event.offsetX;
  if (x < kGutter || x > kGutter + plot_width(panel)) return;
  for (const other of panels) {
    other.cursor.style.left = x + 'px';
    other.cursor.hidden = false;
  }
  const task = task_at(panel, x, event.offsetY);
  if (task) show_tooltip(panel, task, event);
}

function connect_pointer(panel) {
  const {canvas} = panel;
  let drag;
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    drag = {x: event.clientX, start: view.start};
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add('dragging');
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!drag) return hover(panel, event);
    set_view(drag.start - (event.clientX - drag.x) / plot_width(panel) * view.width, view.width);
  });
  for (const name of ['pointerup', 'pointercancel']) {
    canvas.addEventListener(name, () => {
      drag = undefined;
      canvas.classList.remove('dragging');
    });
  }
  canvas.addEventListener('pointerleave', hide_pointer);
  canvas.addEventListener('dblclick', reset_view);
}

function connect(panel) {
  connect_pointer(panel);
  panel.canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (Math.abs(sideways) >= Math.abs(event.deltaY) || event.shiftKey) {
      set_view(view.start + sideways * unit / plot_width(panel) * view.width, view.width);
    } else {
      zoom(to_time(panel, Math.max(event.offsetX, kGutter)), Math.exp(event.deltaY * unit * 0.0015));
    }
  }, {passive: false});
  panel.canvas.addEventListener('keydown', (event) => {
    const middle = view.start + view.width / 2;
    const actions = {
      ArrowLeft: () => set_view(view.start - view.width / 10, view.width),
      ArrowRight: () => set_view(view.start + view.width / 10, view.width),
      '+': () => zoom(middle, 0.8), '-': () => zoom(middle, 1.25), 0: reset_view,
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
}

const panels = data.methods.map(make_panel);
const recorded = new Set(panels.flatMap((panel) => [...panel.iterations.keys()]));
const iterations = [...recorded].sort((a, b) => a - b);
for (const iteration of iterations) element('option', byId('iteration'), String(iteration)).value = iteration;
byId('iteration-label').hidden = iterations.length < 2;
byId('iteration').addEventListener('change', choose_iteration);
byId('reset').addEventListener('click', reset_view);
byId('shades').hidden = !panels.some((panel) => panel.ordinals.some((chunks) => chunks.size > 1));
if (iterations.length === 0) element('p', byId('methods'), 'No task was recorded.');
window.addEventListener('resize', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', read_colors);
read_colors();
choose_iteration();
)js";

}  // namespace sluice::trace
