(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var nodes = Array.prototype.slice.call(document.querySelectorAll("[data-chart]"));

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // "@blue" becomes the style sheet's blue, in whatever light the page is read
  function resolve(value) {
    if (typeof value === "string" && value === "@diverging") {
      return [[0, colour("low")], [0.5, colour("mid")], [1, colour("high")]];
    }
    if (typeof value === "string" && /^@[a-z]+$/.test(value)) { return colour(value.slice(1)); }
    if (Array.isArray(value)) { return value.map(resolve); }
    if (value && typeof value === "object") {
      var out = {};
      Object.keys(value).forEach(function (key) { out[key] = resolve(value[key]); });
      return out;
    }
    return value;
  }

  // a title longer than a telephone is wide goes on in a second line
  function folded(text) {
    var at = text.length > 36 ? text.lastIndexOf(" ", 36) : -1;
    return at > 0 ? text.slice(0, at) + "<br>" + text.slice(at + 1) : text;
  }

  function themed(layout, narrow) {
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: colour("ink") };
    if (narrow) { layout.margin.l = 44; layout.margin.r = 8; }
    layout.hoverlabel = { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } };
    Object.keys(layout).forEach(function (key) {
      if (/^[xy]axis\d*$/.test(key)) {
        layout[key].gridcolor = colour("line");
        layout[key].linecolor = colour("line");
        layout[key].zerolinecolor = colour("muted");
        layout[key].fixedrange = true;
        if (narrow && key[0] === "x" && layout[key].title) { layout[key].title.text = folded(layout[key].title.text); }
      }
    });
    return layout;
  }

  function draw() {
    nodes.forEach(function (node) {
      var figure = resolve(figures[node.dataset.chart]);
      var narrow = node.clientWidth < 480;
      Plotly.react(node, figure.data, themed(figure.layout, narrow), { responsive: true, displayModeBar: false });
    });
  }

  draw();
  document.documentElement.dataset.drawn = String(nodes.length);
  if (window.matchMedia) { window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw); }
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", draw);
})();
