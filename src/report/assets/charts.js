// Turns one chart of the report's JSON into a Chart.js configuration.
const nibbleCharts = {};  // id -> {chart, labelBoxes: [{text, left, top, right, bottom}], ...}

const nibbleChartConfig = (() => {
  'use strict';

  const kFamily = getComputedStyle(document.body).fontFamily;
  const kMarkers = ['circle', 'rect', 'triangle', 'rectRot'];
  const kMostTickLines = 3;
  const kTickFontPx = 12;
  const kSeriesColours = 8;
  const kMostInSmallTooltip = 6;
  const kBandRoomPx = 20;        // above the plot, for the labels of bands
  const kSmallScalePx = 62;      // of the values beside small charts, so that their areas line up

  const scratch = document.createElement('canvas').getContext('2d');
  const measureAt = (px) => (text) => {
    scratch.font = `${px}px ${kFamily}`;
    return scratch.measureText(text).width;
  };
  const measureLabel = measureAt(nibbleLabels.kFontPx);
  const measureTick = measureAt(kTickFontPx);

  // Numbers as everywhere in the report: four significant digits, no exponent.
  const kWhole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
  const kSmall = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 4 });
  const kCompact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
  const formatNumber = (value) => (Math.abs(value) >= 1000 ? kWhole : kSmall).format(value);
  const formatTick = (value) =>
    (Math.abs(value) >= 1e6 ? kCompact : Math.abs(value) >= 1000 ? kWhole : kSmall).format(value);

  // The scheme's colours as the style sheet has them at this moment.
  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const series = Array.from({ length: kSeriesColours }, (_, at) => colour(`series-${at + 1}`));
    const names = ['background', 'text', 'muted', 'rule', 'total', 'band'];
    return Object.assign({ series }, Object.fromEntries(names.map((name) => [name, colour(name)])));
  }

  const seriesColour = (palette, index) => palette.series[index % kSeriesColours];
  const marker = (index) => kMarkers[index % kMarkers.length];

  // Ticks of a logarithmic axis: the values themselves where all are powers of two (concurrencies);
  // else powers of ten, with 2 and 5 or all digits between them where that would leave fewer than 3.
  function logarithmicTicks(min, max, values) {
    const distinct = [...new Set(values)].sort((a, b) => a - b);
    const kMostTicks = 13;
    if (distinct.length > 2 && distinct.length <= kMostTicks &&
        distinct.every((value) => Number.isInteger(Math.log2(value)))) return distinct;
    let ticks = [];
    for (const digits of [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      ticks = [];
      for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); ++power) {
        for (const digit of digits) {
          const value = Number(`${digit}e${power}`);
          if (value >= min && value <= max) ticks.push(value);
        }
      }
      if (ticks.length >= 3) break;
    }
    return ticks;
  }

  function titleOf(axis) {
    return { display: axis.title !== '', text: axis.title, font: { size: kTickFontPx } };
  }

  // A numeric axis that shows all of `values`.
  function numericScale(axis, values, startsAtZero) {
    const scale = {
      type: axis.logarithmic ? 'logarithmic' : 'linear',
      title: titleOf(axis),
      ticks: {
        callback: formatTick, maxRotation: 0, maxTicksLimit: 8, padding: 6,
        font: { size: kTickFontPx },
      },
      grid: { drawTicks: false, drawBorder: false },
    };
    if (!axis.logarithmic) {
      const bounded = [axis.min, axis.max].some((value) => value !== undefined);
      Object.assign(scale, {
        beginAtZero: startsAtZero, grace: startsAtZero || bounded ? 0 : '5%',
      });
      return Object.assign(scale, axis.min === undefined ? {} : { min: axis.min },
        axis.max === undefined ? {} : { max: axis.max });
    }
    const positive = values.filter((value) => value > 0);
    if (positive.length === 0) return scale;
    const kRoom = 1.35;  // between the outermost points and the frame
    const min = Math.min(...positive) / kRoom;
    const max = Math.max(...positive) * kRoom;
    delete scale.ticks.maxTicksLimit;
    return Object.assign(scale, {
      min, max,
      afterBuildTicks: (built) => {
        built.ticks = logarithmicTicks(min, max, positive).map((value) => ({ value }));
      },
    });
  }

  function xyScales(source, points) {
    const scales = {
      x: numericScale(source.x, points.map((point) => point.x), false),
      y: numericScale(source.y, points.map((point) => point.y), true),
    };
    if (source.small) {
      scales.y.ticks.maxTicksLimit = 5;
      scales.y.afterFit = (scale) => { scale.width = kSmallScalePx; };
    }
    return scales;
  }

  function xyDataset(series, index) {
    const hasMarkers = series.mark !== 'line';
    return {
      type: 'line',
      label: series.name,
      data: series.points.map((point) => ({ x: point.x, y: point.y })),
      nibbleSeries: series,
      // Markers stand above plain lines; beyond that, earlier series above later ones.
      order: hasMarkers ? 0 : 1,
      showLine: series.mark !== 'points',
      borderDash: series.dashed ? [6, 4] : [],
      borderWidth: 2,
      pointStyle: marker(index),
      pointRadius: hasMarkers ? 4.5 : 0,
      pointHoverRadius: hasMarkers ? 6.5 : 4,
      pointHitRadius: 10,
      pointBorderWidth: 0,
    };
  }

  function barDataset(source, series) {
    let end = 0;
    const isTotal = (at) => source.kind === 'waterfall' && at === series.points.length - 1;
    const data = series.points.map((point, at) => {
      if (source.kind !== 'waterfall') return point.y;
      const start = isTotal(at) ? 0 : end;
      end = start + point.y;
      return [start, end];
    });
    return {
      type: 'bar', label: series.name, data, nibbleSeries: series, nibbleIsTotal: isTotal,
      borderRadius: 2, borderSkipped: false, minBarLength: 2, maxBarThickness: 20,
      categoryPercentage: source.series.length > 1 ? 0.78 : 0.62, barPercentage: 0.9,
    };
  }

  const tickLines = (text, chartWidth) =>
    nibbleLabels.wrap(text, Math.min(Math.max(chartWidth * 0.34, 84), 280), kMostTickLines,
      measureTick);

  // Height at which every bar, and every line of its name, has room.
  function barsHeight(source, width) {
    const first = source.series[0] ? source.series[0].points : [];
    const rows = first.map((point) => tickLines(point.label, width).length);
    const row = Math.max(34, Math.max(1, ...rows) * kTickFontPx * 1.2 + 10, source.series.length * 24);
    return Math.ceil(first.length * row + 64);
  }

  function barScales(source) {
    const points = source.series.flatMap((series) => series.points);
    const labels = source.series[0] ? source.series[0].points.map((point) => point.label) : [];
    const value = numericScale(source.y, points.map((point) => point.y), true);
    if (!source.y.logarithmic) {
      // The longest bar ends at the frame; its value stands in the margin beyond.
      value.ticks.maxTicksLimit = 6;
      value.bounds = 'data';
      value.afterBuildTicks = (built) => {
        const step = built.ticks.length > 1 ? built.ticks[1].value - built.ticks[0].value : 1;
        built.ticks = built.ticks.filter(({ value: at }) =>
          at >= built.min && at <= built.max && Math.abs(at / step - Math.round(at / step)) < 1e-6);
      };
    }
    return {
      x: value,
      y: {
        type: 'category',
        labels,
        grid: { display: false, drawBorder: false },
        ticks: {
          autoSkip: false, crossAlign: 'far', padding: 8, font: { size: kTickFontPx },
          callback(index) { return tickLines(labels[index], this.chart.width); },
        },
      },
    };
  }

  function tooltip(source) {
    const wrapped = (chart, text) => nibbleLabels.wrap(text, chart.width * 0.6, 4, measureTick);
    const pointOf = (item) => item.dataset.nibbleSeries.points[item.dataIndex];
    const named = (axis, otherwise, value) => `${axis.title || otherwise}: ${formatNumber(value)}`;
    return {
      displayColors: false,
      padding: 10,
      titleFont: { size: 12 },
      bodyFont: { size: 12 },
      footerFont: { size: 12, weight: 'normal' },
      // Where many lines meet, all of them would be higher than a small chart.
      filter: (item, at) => !source.small || at < kMostInSmallTooltip,
      callbacks: {
        footer: (items) => source.small && items.length > 0
          ? named(source.x, 'x', pointOf(items[0]).x) : [],
        title: (items) => items.length === 0 ? []
          : wrapped(items[0].chart, pointOf(items[0]).label || items[0].dataset.label),
        label: (item) => {
          const point = pointOf(item);
          if (source.small) return wrapped(item.chart, `${item.dataset.label}: ${formatNumber(point.y)}`);
          const lines = source.series.length > 1 && point.label ? [item.dataset.label] : [];
          if (source.kind === 'xy') lines.push(named(source.x, 'x', point.x));
          lines.push(named(source.y, 'value', point.y));
          return lines.flatMap((line) => wrapped(item.chart, line));
        },
      },
    };
  }

  // The steps of a waterfall hang together.
  function drawConnectors(chart) {
    const context = chart.ctx;
    context.strokeStyle = chart.nibblePalette.muted;
    context.lineWidth = 1;
    context.setLineDash([2, 2]);
    chart.data.datasets.forEach((dataset, index) => {
      if (!chart.isDatasetVisible(index)) return;
      const bars = chart.getDatasetMeta(index).data;
      for (let at = 1; at < bars.length; ++at) {
        const x = chart.scales.x.getPixelForValue(dataset.data[at - 1][1]);
        context.beginPath();
        context.moveTo(x, bars[at - 1].y + bars[at - 1].height / 2);
        context.lineTo(x, bars[at].y - bars[at].height / 2);
        context.stroke();
      }
    });
    context.setLineDash([]);
  }

  // Where a chart's bands lie now, with the labels that have room: {left, right, text, box}.
  function placeBands(chart, bands) {
    const { left, right, top } = chart.chartArea;
    const clamp = (x) => Math.min(Math.max(x, left), right);
    return bands.map((band) => {
      const from = clamp(chart.scales.x.getPixelForValue(band.from));
      const to = clamp(chart.scales.x.getPixelForValue(band.to));
      // "64 users", or at least "64".
      const text = [band.label, band.label.split(' ')[0]].find((one) =>
        one && measureLabel(one) <= to - from - 2);
      const width = text ? measureLabel(text) : 0;
      const middle = (from + to) / 2;
      const box = {
        left: middle - width / 2, right: middle + width / 2, top: top - kBandRoomPx + 3, bottom: top - 3,
      };
      return { left: from, right: to, text, box };
    });
  }

  // Behind the grid and the data; labels stand above the frame, where they cover nothing.
  const bandPlugin = (source) => ({
    id: 'nibbleBands',
    beforeDraw(chart) {
      const placed = placeBands(chart, source.bands);
      nibbleCharts[source.id].bands = placed;
      const { ctx: context, chartArea: { top, bottom }, nibblePalette: palette } = chart;
      context.save();
      context.font = `${nibbleLabels.kFontPx}px ${kFamily}`;
      context.textBaseline = 'middle';
      for (const { left, right, text, box } of placed) {
        context.fillStyle = palette.band;
        context.fillRect(left, top, right - left, bottom - top);
        context.fillStyle = palette.text;
        if (text) context.fillText(text, box.left, (box.top + box.bottom) / 2);
      }
      context.restore();
    },
  });

  // Draws labels above the data, below the tooltip, and tells where they stand.
  const labelPlugin = (source) => ({
    id: 'nibbleLabels',
    afterDatasetsDraw(chart) {
      const isXy = source.kind === 'xy';
      const context = chart.ctx;
      context.save();
      if (source.kind === 'waterfall') drawConnectors(chart);
      const placed = isXy ? nibbleLabels.placePointLabels(chart, measureLabel)
        : nibbleLabels.placeBarValues(chart, measureLabel, formatNumber);
      context.font = `${nibbleLabels.kFontPx}px ${kFamily}`;
      context.textBaseline = 'middle';
      context.textAlign = 'left';
      const draw = isXy ? nibbleLabels.drawPointLabels : nibbleLabels.drawBarValues;
      draw(context, placed, chart.nibblePalette);
      context.restore();
      const names = isXy ? [] : categoryBoxes(chart.scales.y);
      const bands = (nibbleCharts[source.id].bands || []).filter(({ text }) => text);
      nibbleCharts[source.id].labelBoxes =
        placed.concat(bands).map(({ text, box }) => Object.assign({ text }, box)).concat(names);
    },
  });

  // Where the names of the bars stand, left of the axis.
  function categoryBoxes(scale) {
    return scale.ticks.map((tick, at) => {
      const lines = [].concat(tick.label);
      const height = lines.length * kTickFontPx * 1.2;
      const middle = scale.getPixelForTick(at);
      return {
        text: lines.join(' '), left: scale.left, right: scale.right - 8,
        top: middle - height / 2, bottom: middle + height / 2,
      };
    });
  }

  // The configuration of one chart, without colours (paint adds those).
  function configure(source) {
    const isXy = source.kind === 'xy';
    const points = source.series.flatMap((series) => series.points);
    const values = isXy ? [] : points.map((point) => measureLabel(formatNumber(point.y ?? 0)));
    return {
      type: isXy ? 'line' : 'bar',
      data: {
        datasets: source.series.map((series, index) =>
          isXy ? xyDataset(series, index) : barDataset(source, series)),
      },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        indexAxis: isXy ? 'x' : 'y',
        interaction: { mode: 'nearest', axis: isXy ? 'xy' : 'y', intersect: false },
        font: { family: kFamily },
        layout: { padding: { top: source.bands ? kBandRoomPx : 6, right: isXy ? 8 : Math.ceil(Math.max(0, ...values)) + 12 } },
        scales: isXy ? xyScales(source, points) : barScales(source),
        plugins: { legend: { display: false }, tooltip: tooltip(source) },
      },
      plugins: source.bands ? [bandPlugin(source), labelPlugin(source)] : [labelPlugin(source)],
    };
  }

  // Gives a chart the colours of the scheme in force.
  function paint(chart, source) {
    const palette = readPalette();
    chart.nibblePalette = palette;
    chart.data.datasets.forEach((dataset, index) => {
      const colour = seriesColour(palette, index);
      dataset.borderColor = colour;
      dataset.backgroundColor = source.kind === 'waterfall'
        ? dataset.data.map((_, at) => (dataset.nibbleIsTotal(at) ? palette.total : colour)) : colour;
      if (source.kind !== 'xy') return;
      dataset.pointBackgroundColor = colour;
      dataset.pointHoverBackgroundColor = colour;
    });
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = scale.type === 'category' ? palette.text : palette.muted;
      if (scale.title) scale.title.color = palette.text;
      scale.grid.color = palette.rule;
      scale.grid.borderColor = palette.rule;
    }
    Object.assign(chart.options.plugins.tooltip, {
      backgroundColor: palette.text, titleColor: palette.background, bodyColor: palette.background,
    });
  }

  return { configure, paint, barsHeight, marker, kSeriesColours };
})();
