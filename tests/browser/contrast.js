// () => [[contrast, text, colour, background]...] of all text on the page that is less than 4.5 : 1 against what is behind it.
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parent = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const style = getComputedStyle(element);
    const colour = rgba(style.backgroundColor);
    return colour[3] === 1 ? colour.slice(0, 3) : over(colour, behind(parent(element)));
  };
  const opacity = (element) => (element ? Number(getComputedStyle(element).opacity) * opacity(parent(element)) : 1);
  // What cannot be acted on or is not shown; the value above a slider, which stands inside its knob only in the tree.
  const LEFT_OUT = ":disabled, label:has(:disabled), [aria-disabled=true], [data-testid=stWidgetLabel]:has(~ * :disabled), option, style, script, [data-testid=stSliderThumbValue]";
  const found = [];
  const visit = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) visit(element.shadowRoot);
      const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
      if (!text || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
      if (element.closest(LEFT_OUT)) continue;
      const box = element.getBoundingClientRect();
      if (!box.width || !box.height || box.right < 0 || box.bottom < 0) continue;
      const background = behind(element);
      const [r, g, b, a] = rgba(getComputedStyle(element).color);
      const colour = over([r, g, b, a * opacity(element)], background);
      const [x, y] = [luminance(colour), luminance(background)];
      const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
      if (contrast < 4.5) found.push([Number(contrast.toFixed(2)), text.slice(0, 40), colour.map(Math.round).join(), background.map(Math.round).join()]);
    }
  };
  visit(document);
  return found;
};
