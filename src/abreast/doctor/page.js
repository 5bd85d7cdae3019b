// Zooms the timeline, labels the spans that have room for a name, and shows the numbers of the span under the pointer.
"use strict";
for (const timeline of document.querySelectorAll(".timeline")) {
  const frame = timeline.querySelector(".frame");
  const plot = frame.querySelector("svg");
  const readout = timeline.querySelector(".readout");
  const invitation = readout.textContent;
  let zoom = 1;

  const zoomTo = (wanted, x) => {
    const middle = (frame.scrollLeft + x) / plot.clientWidth;
    zoom = Math.min(64, Math.max(1, wanted));
    plot.setAttribute("width", `${100 * zoom}%`);
    timeline.classList.toggle("zoomed", zoom >= 4);
    frame.scrollLeft = middle * plot.clientWidth - x;
    fitLabels(plot);
  };

  const read = (event) => {
    const span = event.target.closest(".span");
    for (const other of plot.querySelectorAll(".span.pointed")) other.classList.remove("pointed");
    span?.classList.add("pointed");
    readout.textContent = span ? span.querySelector("title").textContent : invitation;
  };

  timeline.classList.add("live");
  plot.addEventListener("pointerover", read);
  plot.addEventListener("pointerleave", read);
  for (const button of timeline.querySelectorAll("button")) {
    const factor = Number(button.dataset.zoom);
    button.addEventListener("click", () => zoomTo(factor ? zoom * factor : 1, frame.clientWidth / 2));
  }
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomTo(zoom * (event.deltaY < 0 ? 1.25 : 0.8), event.clientX - frame.getBoundingClientRect().left);
  }, { passive: false });
}

function fitLabels(root) {
  const labels = [...root.querySelectorAll(".label")];
  const tight = labels.map((label) => {
    const words = label.firstElementChild.getComputedTextLength() + 9;
    return words > label.previousElementSibling.getBoundingClientRect().width;
  });
  labels.forEach((label, index) => label.classList.toggle("tight", tight[index]));
}

let waiting = 0;
new ResizeObserver(() => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => fitLabels(document));
}).observe(document.body);
addEventListener("beforeprint", () => {
  for (const detail of document.querySelectorAll("details")) detail.open = true;
});
