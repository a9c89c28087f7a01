// Texts on the canvas: point labels that touch neither each other nor a marker, and the values of
// bars. Boxes are {left, top, right, bottom} in CSS pixels of the canvas.
const nibbleLabels = (() => {
  'use strict';

  const kFontPx = 11;
  const kTextHeightPx = 13;
  const kMarginPx = 2;           // kept free around a label
  const kMarkerPx = 6;           // half the side of the box of a marker
  const kVertexPx = 3;           // and of a line's point without marker
  // Distances from the point; beyond the first a thin line leads back to it.
  const kRingsPx = [9, 20, 34, 52, 72];
  // Unit steps from a point to its label, in order of preference.
  const kDirections = [
    [1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [1, 1], [-1, -1], [-1, 1],
    [1, -0.5], [1, 0.5], [-1, -0.5], [-1, 0.5],
  ];
  const kRingCost = 10;
  const kCrossingCost = 12;      // for each line that the label would cover

  const touches = (a, b, margin = 0) =>
    a.left < b.right + margin && b.left < a.right + margin &&
    a.top < b.bottom + margin && b.top < a.bottom + margin;

  const isInside = (box, area) =>
    box.left >= area.left && box.right <= area.right &&
    box.top >= area.top && box.bottom <= area.bottom;

  // Liang and Barsky's clipping: is any part of the segment a-b in the box?
  function crosses([a, b], box) {
    let from = 0;
    let to = 1;
    const sides = [
      [a.x - b.x, a.x - box.left], [b.x - a.x, box.right - a.x],
      [a.y - b.y, a.y - box.top], [b.y - a.y, box.bottom - a.y],
    ];
    for (const [step, room] of sides) {
      if (step === 0 && room < 0) return false;
      if (step < 0) from = Math.max(from, room / step);
      if (step > 0) to = Math.min(to, room / step);
    }
    return from <= to;
  }

  const markerBox = (point, half) => ({
    left: point.x - half, right: point.x + half, top: point.y - half, bottom: point.y + half,
  });

  // The label's box at `distance` from the point in the given direction.
  function boxAt(point, width, [dx, dy], distance) {
    const reach = distance / Math.hypot(dx, dy);
    const x = point.x + dx * reach;  // where the label's near side is
    const left = dx > 0 ? x : dx < 0 ? x - width : x - width / 2;
    const y = point.y + dy * reach;
    const top = dx !== 0 || dy === 0 ? y - kTextHeightPx / 2 : dy > 0 ? y - 3 : y - kTextHeightPx + 3;
    return { left, top, right: left + width, bottom: top + kTextHeightPx };
  }

  const nearestOnBox = (point, box) => ({
    x: Math.min(Math.max(point.x, box.left), box.right),
    y: Math.min(Math.max(point.y, box.top), box.bottom),
  });

  // May a line lead from the point to its label? Not through labels, nor through other markers,
  // except those that lie on the point itself.
  const isFree = (leader, point, scene) =>
    !scene.placed.some((other) => crosses(leader, other.box)) &&
    !scene.markers.some(({ owner, box }) =>
      Math.hypot(owner.x - point.x, owner.y - point.y) > 2 * kMarkerPx && crosses(leader, box));

  // The best place for one label, or null when every place is taken.
  function findPlace(point, width, scene) {
    let best = null;
    kRingsPx.forEach((distance, ring) => kDirections.forEach((direction, order) => {
      const box = boxAt(point, width, direction, distance);
      if (!isInside(box, scene.area)) return;
      if (scene.placed.some((other) => touches(box, other.box, kMarginPx))) return;
      if (scene.markers.some((marker) => marker.owner !== point && touches(box, marker.box))) return;
      const leader = ring > 0 ? [point, nearestOnBox(point, box)] : null;
      if (leader && !isFree(leader, point, scene)) return;
      const crossings = scene.segments.filter((segment) => crosses(segment, box)).length;
      const cost = ring * kRingCost + crossings * kCrossingCost + order;
      if (best === null || cost < best.cost) best = { box, leader, cost };
    }));
    return best;
  }

  // The markers, lines and wanted labels of a chart as it is drawn now.
  function sceneOf(chart) {
    const scene = { area: chart.chartArea, placed: [], markers: [], segments: [], wanted: [] };
    chart.data.datasets.forEach((dataset, index) => {
      if (!chart.isDatasetVisible(index)) return;
      const points = chart.getDatasetMeta(index).data;
      points.forEach((point, at) => {
        if (point.skip) return;
        const half = dataset.pointRadius > 0 ? kMarkerPx : kVertexPx;
        scene.markers.push({ owner: point, box: markerBox(point, half) });
        if (dataset.showLine && at > 0) scene.segments.push([points[at - 1], point]);
        const text = dataset.nibbleSeries.points[at].label;
        if (dataset.nibbleSeries.label_points && text) scene.wanted.push({ point, text });
      });
    });
    return scene;
  }

  // Greedy, in the order of series and points; a label that fits nowhere is left to the tooltip.
  function placePointLabels(chart, measure) {
    const scene = sceneOf(chart);
    for (const { point, text } of scene.wanted) {
      const place = findPlace(point, measure(text), scene);
      if (place === null) continue;
      scene.placed.push({ text, box: place.box, leader: place.leader });
      if (place.leader) scene.segments.push(place.leader);
    }
    return scene.placed;
  }

  function drawPointLabels(context, placed, palette) {
    for (const { text, box, leader } of placed) {
      if (leader) {
        context.strokeStyle = palette.muted;
        context.lineWidth = 0.75;
        context.beginPath();
        context.moveTo(leader[0].x, leader[0].y);
        context.lineTo(leader[1].x, leader[1].y);
        context.stroke();
      }
      // A halo in the background's colour keeps the text readable above lines.
      context.strokeStyle = palette.background;
      context.lineWidth = 3;
      context.lineJoin = 'round';
      context.fillStyle = palette.text;
      context.strokeText(text, box.left, (box.top + box.bottom) / 2);
      context.fillText(text, box.left, (box.top + box.bottom) / 2);
    }
  }

  // The value of each bar, in the margin kept free for it beyond the bar's end.
  function placeBarValues(chart, measure, format) {
    const placed = [];
    chart.data.datasets.forEach((dataset, index) => {
      if (!chart.isDatasetVisible(index)) return;
      chart.getDatasetMeta(index).data.forEach((bar, at) => {
        const value = dataset.nibbleSeries.points[at].y;
        if (value === null || !Number.isFinite(bar.x)) return;
        const left = Math.max(bar.x, bar.base) + 6;
        const text = format(value);
        const top = bar.y - kTextHeightPx / 2;
        placed.push({
          text, box: { left, top, right: left + measure(text), bottom: top + kTextHeightPx },
        });
      });
    });
    return placed;
  }

  function drawBarValues(context, placed, palette) {
    context.fillStyle = palette.text;
    for (const { text, box } of placed) {
      context.fillText(text, box.left, (box.top + box.bottom) / 2);
    }
  }

  // Breaks text at spaces, and longer words anywhere, to lines of at most `width` pixels; beyond
  // `most` lines it ends in an ellipsis.
  function wrap(text, width, most, measure) {
    const lines = [''];
    for (const word of text.split(/\s+/).filter(Boolean)) {
      const joined = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (measure(joined) <= width) {
        lines[lines.length - 1] = joined;
        continue;
      }
      if (lines.at(-1)) lines.push('');
      for (const letter of word) {
        if (lines.at(-1) && measure(lines.at(-1) + letter) > width) lines.push('');
        lines[lines.length - 1] += letter;
      }
    }
    if (lines.length <= most) return lines;
    const kept = lines.slice(0, most);
    let last = kept[most - 1];
    while (last && measure(`${last}\u2026`) > width) last = last.slice(0, -1);
    kept[most - 1] = `${last.trimEnd()}\u2026`;
    return kept;
  }

  return {
    kFontPx, placePointLabels, drawPointLabels, placeBarValues, drawBarValues, wrap,
  };
})();
