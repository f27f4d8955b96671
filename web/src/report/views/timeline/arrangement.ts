// Which tracks are pinned, hidden, and in which order: what the reader chose, over what is usual.

/** The usual order, with the tracks that were moved where they were moved to. */
export function arranged<T extends { key: string }>(tracks: readonly T[], order: readonly string[]): T[] {
  if (!order.length) return [...tracks];
  const place = new Map(order.map((key, at) => [key, at]));
  const usual = new Map(tracks.map((track, at) => [track.key, at]));
  // A track that the order does not name (another page's order, say) stays behind the one that it usually follows.
  const known = tracks.filter(({ key }) => place.has(key)).sort((a, b) => place.get(a.key)! - place.get(b.key)!);
  for (const track of tracks) {
    if (place.has(track.key)) continue;
    const before = tracks[usual.get(track.key)! - 1] as T | undefined;
    known.splice(before ? known.indexOf(before) + 1 : 0, 0, track);
  }
  return known;
}

/** The order after one track changed places with the next (or previous) of those that are shown beside it. */
export function moved(keys: readonly string[], key: string, by: 1 | -1, beside: (other: string) => boolean): string[] {
  const order = [...keys];
  const at = order.indexOf(key);
  for (let other = at + by; other >= 0 && other < order.length; other += by) {
    if (!beside(order[other])) continue;
    order.splice(at, 1);
    order.splice(other, 0, key);
    return order;
  }
  return order;
}
