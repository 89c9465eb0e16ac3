"use strict";
// Reads the charts' values where the pointer is: all charts share one time. Everything is in the page already.
const moments = JSON.parse(document.querySelector("main").dataset.moments);
const cursors = [...document.querySelectorAll(".cursor")];
const charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => ({
  ...JSON.parse(figure.dataset.chart),
  plot: figure.querySelector(".plot"),
  outputs: [...figure.querySelectorAll("output")],
}));
// Maps of latency: the figures of a column are the text of its rectangle.
const maps = [...document.querySelectorAll("figure.map")].map((figure) => ({
  plot: figure.querySelector(".plot"),
  readout: figure.querySelector(".readout"),
  steps: Number(figure.dataset.steps),
  columns: new Map([...figure.querySelectorAll(".columns rect")].map((rect) => [Number(rect.dataset.column), rect])),
}));
const spoken = document.querySelector(".now");
let held = null;
let shown = null;

const three = (value) => {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
};
const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < units.length) { value /= 1024; unit += 1; }
  return `${unit === 0 ? value.toFixed(0) : three(value)} ${units[unit]}`;
};
const latency = (seconds) => {
  if (seconds >= 0.9995) return `${three(seconds)} s`;
  return seconds >= 0.0009995 || seconds === 0 ? `${three(seconds * 1e3)} ms` : `${three(seconds * 1e6)} µs`;
};
const words = {
  ratio: (value) => `${three(value * 100)} %`,
  threads: three,
  cpus: three,
  seconds: latency,
  bytes,
  bytes_per_second: (value) => `${bytes(value)}/s`,
};
const quantity = (value, unit) => (value === null || value === undefined ? "-" : words[unit](value));

// What a step was; its highest value too where that is another.
const reading = (chart, series, step) => {
  const mean = quantity(series.mean[step], chart.unit);
  const max = quantity(series.max[step], chart.unit);
  return max === mean || max === "-" ? mean : `${mean} (to ${max})`;
};

const show = (step) => {
  shown = step;
  const [from, to, time] = step === null ? [0, 0, ""] : moments[step];
  for (const cursor of cursors) {
    cursor.hidden = step === null;
    cursor.style.left = `${((from + to) / 2) * 100}%`;
    cursor.dataset.time = time;
  }
  for (const chart of charts) {
    for (const output of chart.outputs) {
      const series = chart.series[output.dataset.series];
      output.textContent = step === null ? output.dataset.mean : reading(chart, series, step);
    }
  }
  for (const map of maps) {
    const words = () => map.columns.get(Math.floor(step / map.steps))?.textContent ?? `${time}, no requests`;
    map.readout.textContent = step === null ? map.readout.dataset.mean : words();
  }
};

// The step at that share of the width, or the one nearest to it.
const stepAt = (share) => {
  const after = moments.findIndex(([, to]) => to >= share);
  return after < 0 ? moments.length - 1 : after;
};
const shareOf = (plot, event) => {
  const box = plot.getBoundingClientRect();
  return (event.clientX - box.left) / box.width;
};
const hold = (step) => {
  held = step;
  show(step);
  history.replaceState(null, "", step === null ? "#" : `#at=${encodeURIComponent(moments[step][2])}`);
};

for (const chart of [...charts, ...maps]) {
  const { plot } = chart;
  plot.addEventListener("pointermove", (event) => show(stepAt(shareOf(plot, event))));
  plot.addEventListener("pointerleave", () => show(held));
  plot.addEventListener("click", (event) => {
    const step = stepAt(shareOf(plot, event));
    hold(step === held ? null : step);
  });
  plot.addEventListener("keydown", (event) => {
    const last = moments.length - 1;
    const now = shown ?? 0;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const step = to === null ? null : Math.min(Math.max(to, 0), last);
    held = step;
    show(step);
    const figures = () => chart.series.map((series) => `${series.label} ${quantity(series.mean[step], chart.unit)}`).join(", ");
    spoken.textContent = step === null ? "" : chart.readout?.textContent ?? `${moments[step][2]}: ${figures()}`;
  });
}

// An address that ends with #at=12:03:15 leads to that moment.
const begin = () => {
  const at = /^#at=(.+)$/.exec(location.hash);
  if (!at) return;
  const wanted = decodeURIComponent(at[1]);
  const exact = moments.findIndex(([, , time]) => time === wanted);
  const step = exact >= 0 ? exact : moments.findIndex(([, , time]) => time >= wanted);
  if (step >= 0) { held = step; show(step); }
};
addEventListener("hashchange", begin);
// Folded sections cannot be opened on paper.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((folded) => { folded.open = true; }));
begin();
