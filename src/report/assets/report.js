// Starts the page: draws every chart from the JSON block, redraws with the colour scheme, and makes
// the page ready for printing (light, everything open, charts as wide as the paper).
(() => {
  'use strict';

  const kPrintWidthPx = 640;  // fits between the margins of A4 and of Letter
  const kPrintHeightPx = 370;  // of charts whose height does not follow from their bars
  const kPrintSmallHeightPx = 190;
  const kPrintPixelRatio = 3;

  const root = document.documentElement;
  const sources = JSON.parse(document.getElementById('nibble-charts').textContent);
  const figures = new Map(
    [...document.querySelectorAll('figure.chart')].map((one) => [one.dataset.chart, one]));
  let isPrinting = false;
  let openedForPrinting = [];

  const svg = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // A sample of a series as it is drawn: its line, dashes and marker.
  function swatch(source, series, index) {
    const picture = svg('svg', { viewBox: '0 0 26 12', 'aria-hidden': 'true' });
    picture.style.color = `var(--series-${index % nibbleChartConfig.kSeriesColours + 1})`;
    if (source.kind !== 'xy') {
      picture.append(svg('rect', { x: 6, y: 0, width: 14, height: 12, rx: 2, fill: 'currentColor' }));
      return picture;
    }
    if (series.mark !== 'points') {
      picture.append(svg('path', {
        d: 'M0 6H26', stroke: 'currentColor', 'stroke-width': 2,
        'stroke-dasharray': series.dashed ? '6 4' : 'none',
      }));
    }
    if (series.mark !== 'line') {
      const shapes = {
        circle: ['circle', { cx: 13, cy: 6, r: 4.5 }],
        rect: ['rect', { x: 9, y: 2, width: 8, height: 8 }],
        triangle: ['path', { d: 'M13 1.2L17.6 9.6H8.4Z' }],
        rectRot: ['path', { d: 'M13 1L18 6L13 11L8 6Z' }],
      };
      const [name, attributes] = shapes[nibbleChartConfig.marker(index)];
      picture.append(svg(name, Object.assign({ fill: 'currentColor' }, attributes)));
    }
    return picture;
  }

  // The legend is HTML: it wraps where the page is narrow, and its buttons hide and show a series.
  function addLegend(figure, source, chart) {
    if (source.series.length < 2) return;
    source.series.forEach((series, index) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      button.append(swatch(source, series, index), document.createTextNode(series.name));
      button.addEventListener('click', () => {
        const isShown = !chart.isDatasetVisible(index);
        chart.setDatasetVisibility(index, isShown);
        button.setAttribute('aria-pressed', String(isShown));
        chart.update();
      });
      figure.querySelector('.legend').append(button);
    });
  }

  function fitHeight(plot, source, width) {
    if (source.kind === 'xy') return;
    const height = `${nibbleChartConfig.barsHeight(source, width)}px`;
    if (plot.style.height !== height) plot.style.height = height;
  }

  function addChart(source) {
    const figure = figures.get(source.id);
    const plot = figure.querySelector('.plot');
    fitHeight(plot, source, plot.clientWidth);
    nibbleCharts[source.id] = { chart: null, labelBoxes: [] };
    const config = nibbleChartConfig.configure(source);
    config.options.onResize = (chart, size) => fitHeight(plot, source, size.width);
    // Painted before the first drawing: the plugin that does it runs once the scales' options are
    // there.
    config.plugins.push({
      id: 'nibblePaint',
      beforeInit: (chart) => nibbleChartConfig.paint(chart, source),
    });
    const chart = new Chart(plot.querySelector('canvas'), config);
    nibbleCharts[source.id].chart = chart;
    addLegend(figure, source, chart);
  }

  function repaint() {
    for (const source of sources) {
      const { chart } = nibbleCharts[source.id];
      nibbleChartConfig.paint(chart, source);
      // Without mode 'none', which would leave the points' shared options as they were (3.9.1).
      chart.update();
    }
  }

  function preparePrinting() {
    if (isPrinting) return;
    isPrinting = true;
    root.classList.add('printing');
    openedForPrinting = [...document.querySelectorAll('details:not([open])')];
    for (const details of openedForPrinting) details.open = true;
    for (const source of sources) {
      const { chart } = nibbleCharts[source.id];
      chart.options.devicePixelRatio = kPrintPixelRatio;
      const plot = figures.get(source.id).querySelector('.plot');
      fitHeight(plot, source, kPrintWidthPx);
      // A chart grows no larger than what holds it.
      plot.style.width = `${kPrintWidthPx}px`;
      const height = source.small ? kPrintSmallHeightPx : kPrintHeightPx;
      if (source.kind === 'xy') plot.style.height = `${height}px`;
      chart.resize(kPrintWidthPx, plot.clientHeight);
    }
    repaint();
  }

  function finishPrinting() {
    if (!isPrinting) return;
    isPrinting = false;
    root.classList.remove('printing');
    for (const details of openedForPrinting) details.open = false;
    for (const source of sources) {
      const { chart } = nibbleCharts[source.id];
      delete chart.options.devicePixelRatio;
      const plot = figures.get(source.id).querySelector('.plot');
      plot.style.width = '';
      plot.style.height = '';
      fitHeight(plot, source, plot.clientWidth);
      chart.resize();
    }
    repaint();
  }

  sources.forEach(addChart);
  window.nibbleCharts = typeof nibbleCharts === 'undefined' ? {} : nibbleCharts;
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
  matchMedia('print').addEventListener('change', (event) =>
    (event.matches ? preparePrinting : finishPrinting)());
  window.addEventListener('beforeprint', preparePrinting);
  window.addEventListener('afterprint', finishPrinting);
})();
