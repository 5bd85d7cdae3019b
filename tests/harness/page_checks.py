"""Checks of a page in a browser: hidden elements, faint texts, and how far the layout moved."""

from __future__ import annotations

import json
import struct
import zlib

from tests.harness.browser import Browser

# How many elements fit a selector, and which of them have no box, are not visible, or lie outside of the page.
UNSEEN = """(selector => {
  const found = [...document.querySelectorAll(selector)];
  const unseen = found.filter(element => {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    const outside = box.left < -0.5 || box.right > document.documentElement.scrollWidth + 0.5;
    const scrolls = element.closest(".frame") !== null;
    return !(box.width > 0 && box.height > 0) || style.visibility !== "visible" || style.opacity === "0" || (outside && !scrolls);
  });
  return [found.length, unseen.map(element => element.outerHTML.slice(0, 200))];
})"""

# Texts whose contrast with what is behind them is below 4.5.
FAINT = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgb = colours => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    const label = element.closest("svg.label");
    const box = label && label.previousElementSibling;
    const layers = [];
    if (box) {
      const style = getComputedStyle(box);
      layers.push(`color-mix(in srgb, ${style.fill} ${100 * style.fillOpacity}%, transparent)`);
    }
    for (let at = element; at; at = at.parentElement) layers.push(getComputedStyle(at).backgroundColor);
    return layers.reverse();
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, title, style")) continue;
    if (getComputedStyle(element).visibility !== "visible") continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [low, high] = [light(rgb(back)), light(rgb([...back, element.closest("svg") ? style.fill : style.color]))].sort();
    if ((Math.max(low, high) + .05) / (Math.min(low, high) + .05) < 4.5) faint.push(walker.currentNode.data.slice(0, 60));
  }
  return faint;
})()"""

# Texts of a figure that are cut, or lie on another.
OVERLAPS = """(() => {
  const found = [];
  for (const figure of document.querySelectorAll("svg.figure")) {
    const boxes = [...figure.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    const whole = figure.getBoundingClientRect();
    boxes.forEach(([name, box], index) => {
      if (box.left < whole.left || box.right > whole.right) found.push(`${name} is cut`);
      for (const [other, its] of boxes.slice(index + 1))
        if (box.left < its.right && its.left < box.right && box.top < its.bottom - 2 && its.top < box.bottom - 2)
          found.push(`${name} on ${other}`);
    });
  }
  return found;
})()"""

# Words of tables that are broken into lines of a few letters, and cells that neither fit nor scroll in a box of their own.
TABLES = """(() => {
  const found = [];
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return new Set([...range.getClientRects()].filter(box => box.width > 0).map(box => Math.round(box.top))).size;
  };
  const isCut = cell => {
    const box = cell.getBoundingClientRect();
    if (cell.scrollWidth > cell.clientWidth + 1) return true;
    for (let at = cell.parentElement; at; at = at.parentElement) {
      const flow = getComputedStyle(at).overflowX, its = at.getBoundingClientRect();
      if (flow === "auto" || flow === "scroll") return false;
      if (flow !== "visible" && (box.right > its.right + 1 || box.left < its.left - 1)) return true;
    }
    return box.right > innerWidth + 1 || box.left < -1;
  };
  for (const cell of document.querySelectorAll("th, td")) {
    if (!cell.getClientRects().length) continue;
    if (isCut(cell)) found.push(`${cell.textContent.slice(0, 40)} is cut off`);
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/\\S+/g)) {
        const rows = lines(walker.currentNode, word.index, word.index + word[0].length);
        if (rows > 1 && word[0].length / rows < 6) found.push(`one letter below another: ${word[0].slice(0, 40)}`);
      }
    }
  }
  return found;
})()"""

# Keys (lists, tables with swatches, and those of figures) that name what is not drawn, or have one colour twice. A predicted
# curve has the colour of the measured one, and dashes.
KEYS = """(() => {
  const found = [];
  const look = shape => {
    const style = getComputedStyle(shape), kind = shape.tagName.toLowerCase();
    if (kind === "rect") return `bar ${style.fill}`;
    if (kind === "circle") return `mark ${style.fill} ${style.stroke}`;
    return `line ${style.stroke} ${style.strokeDasharray}`;
  };
  const isDrawn = shape => {
    const box = shape.getBoundingClientRect(), style = getComputedStyle(shape);
    const border = style.stroke === "none" ? 0 : parseFloat(style.strokeWidth);  // half of it lies in the box, on each side
    return style.visibility === "visible" && (shape.tagName.toLowerCase() !== "rect" || box.width > border + 0.4);
  };
  const check = (entries, drawn) => {
    const names = new Map();
    for (const [name, looks] of entries) {
      if (!looks.some(each => drawn.has(each))) found.push(`${name} is not drawn`);
      if (names.has(looks[0])) found.push(`${names.get(looks[0])} and ${name} have one colour`);
      names.set(looks[0], name);
    }
  };
  const shapes = "rect, circle, path:not(.band), line";
  for (const key of document.querySelectorAll(".legend, table.parts")) {
    const drawn = new Set();
    for (const shape of key.closest("section").querySelectorAll("svg rect, svg path")) {
      const style = getComputedStyle(shape);
      if (isDrawn(shape)) { drawn.add(style.fill); drawn.add(style.stroke); }
    }
    const swatches = [...key.querySelectorAll(".swatch")].filter(each => getComputedStyle(each).visibility === "visible");
    check(swatches.map(each => [each.parentElement.textContent, [getComputedStyle(each).backgroundColor]]), drawn);
  }
  for (const figure of document.querySelectorAll("svg.figure")) {
    const inKey = shape => shape.closest(".key") !== null;
    const drawn = new Set([...figure.querySelectorAll(shapes)].filter(each => !inKey(each) && isDrawn(each)).map(look));
    const entries = [...figure.querySelectorAll(".key > g")];
    check(entries.map(each => [each.querySelector("text").textContent, [...each.querySelectorAll(shapes)].map(look)]), drawn);
  }
  return found;
})()"""

# How far things moved while the page was loaded, as browsers count it.
SHIFTS = """new Promise(done => {
  let sum = 0;
  new PerformanceObserver(list => { for (const entry of list.getEntries()) sum += entry.value; })
    .observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(sum), 50);
})"""


def unseen(browser: Browser, selector: str) -> tuple[int, list[str]]:
    number, hidden = browser.ask(f"{UNSEEN}({json.dumps(selector)})")
    return number, hidden


def tables(browser: Browser) -> list[str]:
    found: list[str] = browser.ask(TABLES)
    return found


def keys(browser: Browser) -> list[str]:
    found: list[str] = browser.ask(KEYS)
    return found


def pixels(png: bytes) -> set[bytes]:
    """The distinct rows of a picture, as it stores them: a blank one has one or two."""
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += length + 12
    raw = zlib.decompress(data)
    (height,) = struct.unpack(">I", png[20:24])
    size = len(raw) // height
    return {raw[start : start + size] for start in range(0, len(raw), size)}
