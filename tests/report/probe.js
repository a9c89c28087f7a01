// Run inside the page: for every chart what it draws, where, and which colours stand there.
// CSS pixels around a point that are looked at; a dashed line may have a gap of 4 at its end.
const kReach = 3;
const kReachOfDashes = 5;
const root = getComputedStyle(document.documentElement);
const variable = (name) => root.getPropertyValue(name).trim();

// The distinct colours around a point, as [red, green, blue, alpha].
function pixelsAround(image, x, y, ratio, reach) {
  const colours = new Set();
  const last = Math.round(reach * ratio);
  for (let dy = -last; dy <= last; ++dy) {
    for (let dx = -last; dx <= last; ++dx) {
      const column = Math.round(x * ratio) + dx;
      const row = Math.round(y * ratio) + dy;
      if (column < 0 || row < 0 || column >= image.width || row >= image.height) continue;
      const at = 4 * (row * image.width + column);
      colours.add(image.data.slice(at, at + 4).join());
    }
  }
  return Array.from(colours, (colour) => colour.split(',').map(Number));
}

function pixelAt(image, x, y, ratio) {
  const at = 4 * (Math.round(y * ratio) * image.width + Math.round(x * ratio));
  return Array.from(image.data.slice(at, at + 4));
}

const scaleOf = ({ left, right, top, bottom, min, max, type }) =>
  ({ left, right, top, bottom, min, max, type });

function probe([id, { chart, labelBoxes, bands }]) {
  const { canvas } = chart;
  const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const ratio = chart.currentDevicePixelRatio;
  return [id, {
    width: chart.width,
    height: chart.height,
    area: scaleOf(chart.chartArea),
    x: scaleOf(chart.scales.x),
    y: scaleOf(chart.scales.y),
    xTicks: chart.scales.x.ticks.map((tick) => String(tick.label)),
    yTicks: chart.scales.y.ticks.map((tick) => [].concat(tick.label).join(' ')),
    labels: labelBoxes,
    bands: (bands ?? []).map(({ left, right, text }) => ({
      left, right, text: text ?? '', pixel: pixelAt(image, (left + right) / 2, chart.chartArea.bottom - 2, ratio),
    })),
    // Between the bands, at the same height.
    gaps: (bands ?? []).slice(1).map(({ left }, at) => ({
      width: left - bands[at].right,
      pixel: pixelAt(image, (bands[at].right + left) / 2, chart.chartArea.bottom - 2, ratio),
    })),
    datasets: chart.data.datasets.map((dataset, index) => ({
      label: dataset.label,
      data: dataset.data,
      showLine: dataset.showLine,
      borderDash: dataset.borderDash,
      radius: dataset.pointRadius,
      elements: chart.getDatasetMeta(index).data.map((element) => {
        const isBar = element.base !== undefined;
        const reach = dataset.borderDash?.length > 0 ? kReachOfDashes : kReach;
        const middle = isBar ? (element.x + element.base) / 2 : element.x;
        return {
          x: element.x, y: element.y, base: element.base ?? null,
          pixels: Number.isFinite(middle) ? pixelsAround(image, middle, element.y, ratio, reach) : [],
        };
      }),
    })),
  }];
}

return {
  background: getComputedStyle(document.body).backgroundColor,
  colours: Object.fromEntries(
    ['background', 'text', 'muted', 'total', 'accent', 'good', 'warning', 'bad', 'series-1',
      'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7', 'series-8']
      .map((name) => [name, variable(`--${name}`)])),
  charts: Object.fromEntries(Object.entries(window.nibbleCharts).map(probe)),
};
