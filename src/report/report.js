(function () {
  "use strict";
  document.documentElement.classList.add("js");

  // The value under the pointer, from the table below the chart.
  document.querySelectorAll("figure.chart").forEach(function (figure) {
    var plot = figure.querySelector(".plot"), rows = figure.querySelectorAll(".values tbody tr");
    if (!plot || !rows.length) return;
    var svg = plot.querySelector("svg"), heads = figure.querySelectorAll(".values th");
    var tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    plot.appendChild(tip);
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width;
      var row = rows[Math.max(0, Math.min(rows.length - 1, Math.floor(at * rows.length)))];
      var words = [];
      for (var i = 0; i < row.cells.length; i++)
        words.push((i && row.cells.length > 2 ? heads[i].textContent + " " : "") + row.cells[i].textContent);
      tip.textContent = words.join(" \u00b7 ");
      tip.hidden = false;
      var left = event.clientX - plot.getBoundingClientRect().left + 12;
      tip.style.left = Math.max(0, Math.min(left, plot.clientWidth - tip.offsetWidth)) + "px";
      tip.style.top = "4px";
    });
    svg.addEventListener("pointerleave", function () { tip.hidden = true; });
  });

  // Tables sort by a column when its head is pressed; numbers by data-v.
  function key(row, column) {
    var cell = row.cells[column], value = cell && cell.getAttribute("data-v");
    return value !== null && value !== undefined ? Number(value) : cell ? cell.textContent : "";
  }
  document.querySelectorAll("table.sort").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") !== "descending", body = table.tBodies[0];
        var rows = Array.prototype.slice.call(body.rows);
        rows.sort(function (a, b) {
          var x = key(a, column), y = key(b, column);
          var order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
          return down ? -order : order;
        });
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        rows.forEach(function (row) { body.appendChild(row); });
      });
    });
  });

  // The search box: all words must be in a row; groups with a hit open, those without one go.
  var search = document.querySelector(".search input");
  if (search) {
    var scope = search.closest("section"), output = scope.querySelector(".search output");
    var groups = Array.prototype.slice.call(scope.querySelectorAll("details.group"));
    var before = groups.map(function (group) { return group.open; });
    var rows = Array.prototype.slice.call(scope.querySelectorAll("tr[data-s]"));
    var texts = rows.map(function (row) { return row.textContent.toLowerCase() + " " + row.getAttribute("data-s").toLowerCase(); });
    var timer;
    var filter = function () {
      var words = search.value.toLowerCase().split(/\s+/).filter(Boolean), seen = {};
      rows.forEach(function (row, i) {
        var hit = words.every(function (word) { return texts[i].indexOf(word) >= 0; });
        row.classList.toggle("gone", !hit);
        if (hit) seen[row.getAttribute("data-s") + " " + row.getAttribute("data-k")] = 1;
      });
      groups.forEach(function (group, i) {
        var left = group.querySelector("tr[data-s]:not(.gone)");
        group.classList.toggle("gone", words.length > 0 && !left);
        group.open = words.length ? Boolean(left) : before[i];
      });
      output.textContent = words.length ? Object.keys(seen).length + " counters match" : "";
    };
    search.addEventListener("input", function () {
      clearTimeout(timer);
      timer = setTimeout(filter, 80);
    });
  }
})();
