// Texts of a figure as plotly writes them: <b>, <br> and three entities, nothing else. They are drawn, never made markup.

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
const MINUS = "\u2212";

const plain = (text) => text.replace(/&(lt|gt|amp);/g, (found) => ENTITIES[found]);

/** Lines of runs: [[{text, bold}]]. */
export function rich(text) {
  return String(text)
    .split(/<br\s*\/?>/)
    .map((line) => {
      const runs = [];
      let bold = false;
      for (const part of line.split(/(<\/?[a-z]+>)/)) {
        if (part === "<b>" || part === "</b>") bold = part === "<b>";
        else if (part && !/^<\/?[a-z]+>$/.test(part)) runs.push({ text: plain(part), bold });
      }
      return runs;
    });
}

/** The same without its tags: for tips and for measuring. */
export const stripped = (text) => rich(text).map((runs) => runs.map((run) => run.text).join(""));

/** font: {size, family, colour}. align: left, center, right. base: top, middle, bottom, of all lines together. */
export function drawText(context, text, x, y, font, { align = "left", base = "middle", most = Infinity } = {}) {
  const lines = rich(text);
  const height = lineHeight(font.size);
  let at = y + height / 2 - { top: 0, middle: 0.5, bottom: 1 }[base] * height * lines.length;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = font.colour;
  for (const runs of lines) {
    const fitted = fit(context, runs, font, most);
    let left = x - { left: 0, center: 0.5, right: 1 }[align] * fitted.width;
    for (const run of fitted.runs) {
      context.font = css(font, run.bold);
      context.fillText(run.text, left, at);
      left += run.width;
    }
    at += height;
  }
}

/** {width, height} of a text with its lines and bold parts. */
export function measure(context, text, font) {
  const lines = rich(text);
  return {
    width: Math.max(0, ...lines.map((runs) => fit(context, runs, font, Infinity).width)),
    height: lines.length * lineHeight(font.size),
  };
}

export const lineHeight = (size) => Math.round(size * 1.25);

function fit(context, runs, font, most) {
  const sized = runs.map((run) => {
    context.font = css(font, run.bold);
    return { ...run, width: context.measureText(run.text).width };
  });
  const width = sized.reduce((sum, run) => sum + run.width, 0);
  if (width <= most) return { runs: sized, width };
  const chars = [...sized.map((run) => run.text).join("")];
  const bold = sized.some((run) => run.bold);
  context.font = css(font, bold);
  while (chars.length && context.measureText(`${chars.join("")}…`).width > most) chars.pop();
  const text = `${chars.join("")}…`;
  return { runs: [{ text, bold, width: context.measureText(text).width }], width: context.measureText(text).width };
}

const css = (font, bold) => `${bold ? 650 : 400} ${font.size}px ${font.family}, sans-serif`;

const FORMAT = /^([+])?(,)?(?:\.(\d+))?([fgdes%])?$/;

/** A number as d3 writes it under a format like ".4f", ".3g", ",", ".1%"; with a real minus. */
export function format(value, spec = "") {
  if (typeof value === "string") return value;
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${MINUS}∞`;
  const [, sign, comma, digits, kind] = FORMAT.exec(spec) ?? [];
  let text;
  if (kind === "%") text = `${(100 * value).toFixed(Number(digits ?? 0))}%`;
  else if (kind === "f") text = value.toFixed(Number(digits ?? 6));
  else if (kind === "e") text = value.toExponential(Number(digits ?? 6));
  else if (kind === "g") text = significant(value, Number(digits ?? 6));
  else text = significant(value, 6);
  if (comma && !text.includes("e")) text = grouped(text);
  if (sign && value > 0) text = `+${text}`;
  return text.replaceAll("-", MINUS);
}

/** At most so many significant digits, no zeros at the end. */
export function significant(value, digits) {
  const size = Math.abs(value);
  if (value !== 0 && (size >= 10 ** Math.max(digits, 5) || size < 1e-4))
    return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  const text = value.toPrecision(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function grouped(text) {
  const [whole, part] = text.split(".");
  const with_commas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? with_commas : `${with_commas}.${part}`;
}

/** A hover template with %{name}, %{name:format}, %{name[0]}; find(name, index) gives the value. */
export function fillTemplate(template, find) {
  return template
    .replace(/<extra>.*?<\/extra>/g, "")
    .replace(/%\{([a-z.]+)(?:\[(\d+)\])?(?::([^}]*))?\}/g, (_, name, index, spec) => {
      const value = find(name, index === undefined ? null : Number(index));
      return typeof value === "string" ? value : format(value, spec ?? "");
    });
}
