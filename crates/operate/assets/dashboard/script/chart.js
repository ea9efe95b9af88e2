// ---- attempts over time
//
// Each point is the count of the minute that ends there. So the last point is the number of the tile, and its unit.

const SERIES = [
  { list: "admitted", label: "admitted", colour: "admit" },
  { list: "refused", label: "refused", colour: "refuse" },
  { list: "observed", label: "would be refused", colour: "observe" },
];
const HEIGHT = 230;
const chart = { plot: null, history: null, span: 10 };

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The sums of the last minute at each step; null before the start of the gate.
function minutes(list, step) {
  const width = Math.round(60 / step);
  const sum = at => list.slice(Math.max(0, at - width + 1), at + 1).reduce((all, one) => all + (one || 0), 0);
  return list.map((count, at) => (count === null ? null : sum(at)));
}

// The span that was chosen; less if the gate is younger, and never less than two minutes.
function keptSteps(list, step) {
  const known = list.length - list.findIndex(count => count !== null);
  return Math.min(Math.round((chart.span * 60) / step), Math.max(Math.round(120 / step), known));
}

function chartData({ seconds, end, ...lists }) {
  const kept = keptSteps(lists.admitted, seconds), last = lists.admitted.length - 1;
  const times = lists.admitted.map((_, at) => end - (last - at) * seconds);
  return [times, ...SERIES.map(({ list }) => minutes(lists[list], seconds))].map(list => list.slice(-kept));
}

function chartAxis(label, more) {
  return {
    label, stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
    font: "12px system-ui", labelFont: "12px system-ui", labelSize: 20, labelGap: 2, ...more,
  };
}

function chartOptions() {
  const line = ({ label, colour: name }) =>
    ({ label, stroke: colour(`--${name}`), fill: colour(`--${name}-fill`), width: 2, points: { show: false }, spanGaps: false });
  return {
    width: $("chart").clientWidth, height: HEIGHT, padding: [10, 24, 0, 0], legend: { show: false },
    cursor: { y: false, points: { size: 6 } }, hooks: { setCursor: [showLegend] },
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 5)] } },
    axes: [chartAxis("Time of day", { space: 80, size: 28, incrs: [15, 30, 60, 120, 300, 600, 900, 1800], values: timeLabels }),
      chartAxis("Attempts a minute", { size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] })],
    series: [{}, ...SERIES.map(line)],
  };
}

function timeLabels(_, times, axis, space, step) {
  const parts = step < 60 ? { second: "2-digit" } : {};
  return times.map(time => clock(time * 1000, parts));
}

// The numbers at the pointer; without one those of the last minute.
function showLegend(plot) {
  const at = plot.cursor.idx ?? null, shown = at ?? plot.data[0].length - 1;
  $("legend-time").textContent = at === null ? "last minute" : `minute to ${clock(plot.data[0][at] * 1000, { second: "2-digit" })}`;
  SERIES.forEach(({ list }, number) => { $(`legend-${list}`).textContent = whole(plot.data[number + 1][shown] || 0); });
}

function showHistory(history) {
  chart.history = history;
  const data = chartData(history);
  if (chart.plot) chart.plot.setData(data);
  else chart.plot = new uPlot(chartOptions(), data, $("chart"));
  showLegend(chart.plot);
  showTiles(...data.slice(1).map(list => list.at(-1) || 0));
}

function showTiles(admitted, refused, observed) {
  const attempts = admitted + refused + observed, would = `${whole(observed)} would be refused`;
  $("tile-attempts").textContent = whole(attempts);
  $("tile-refused").textContent = whole(refused);
  $("tile-refused-unit").textContent = observed > 0 ? `in the last minute; ${would}` : "in the last minute";
  $("tile-refused").parentElement.classList.toggle("some", refused > 0);
  $("chart-text").textContent = `Attempts a minute. In the last minute ${whole(admitted)} attempts were admitted, ${whole(refused)} were refused, ${would}.`;
}

function newChart() {
  if (chart.plot) chart.plot.destroy();
  chart.plot = null;
  if (chart.history) showHistory(chart.history);
}

const fitChart = () => chart.plot && chart.plot.setSize({ width: $("chart").clientWidth, height: HEIGHT });
