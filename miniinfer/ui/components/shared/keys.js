// The keys of the page in one table: the same lines bind them and are read by the overview, so neither can go out of step.

/** The table of this page; made by whichever component loads first. */
export const getKeys = () => (window.__miniinferKeys ??= new Keys());

/**
 * A group is {title, keys: [{key, shift, shown, does, act(event)}...], ready()}. key: KeyboardEvent.key, or a list of them;
 * shift: true, false (the default) or null, where it does not matter; shown: the names of the keys for the reader. ready
 * may be left out; where it says no, the group neither acts nor is shown. first: it stands on top; inside: it acts in
 * what has the focus.
 */
class Keys {
  changed = null; // runs when a group came or went: a part of the page may be drawn after the overview was opened
  #groups = []; // [group, times it was added]

  /** Returns the way to take the group away again. */
  add(group) {
    const found = this.#groups.find(([other]) => other === group);
    if (found) found[1]++;
    else this.#groups.push([group, 1]);
    this.changed?.();
    return () => {
      const at = this.#groups.findIndex(([other]) => other === group);
      if (at >= 0 && --this.#groups[at][1] === 0) this.#groups.splice(at, 1);
      this.changed?.();
    };
  }

  /** Groups that act now, those of the whole page before those of a focused part. */
  get groups() {
    const all = this.#groups.map(([group]) => group).filter((group) => group.ready?.() ?? true);
    const order = (group) => (group.inside ? 2 : group.first ? 0 : 1);
    return all.sort((a, b) => order(a) - order(b));
  }

  /** The line of the page's own table for this event, or null. */
  find(event) {
    for (const group of this.groups) {
      const entry = group.inside ? null : entryOf(group, event);
      if (entry) return entry;
    }
    return null;
  }
}

/**
 * Bind a group to one element: its keys act while the focus is inside. act(event) may return false: then the key was not for it.
 * group is shared by all elements of a kind, so what its lines do is given here, by name; a line without one is left to the browser.
 */
export function bindWithin(element, group, acts) {
  const onKey = (event) => {
    const entry = event.defaultPrevented ? null : entryOf(group, event);
    if (!entry || !acts[entry.name] || acts[entry.name](event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  };
  element.addEventListener("keydown", onKey);
  const forget = getKeys().add(group);
  return () => (forget(), element.removeEventListener("keydown", onKey));
}

function entryOf(group, event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return null;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return group.keys.find((entry) => {
    const shift = entry.shift === undefined ? false : entry.shift;
    return [entry.key].flat().includes(key) && (shift === null || shift === event.shiftKey);
  });
}
