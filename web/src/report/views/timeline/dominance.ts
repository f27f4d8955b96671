// Which colour takes most time among neighbouring events, from sums made once: a pixel may stand for thousands.

const BRANCH = 8;
const MOST_LOOKED_AT = 32;

interface Level {
  codes: Uint16Array;
  weights: Float64Array;
}

export class Dominance {
  private readonly levels: Level[];
  private readonly sums: Float64Array;

  constructor(codes: Uint16Array, weights: Float64Array, codeCount: number) {
    this.sums = new Float64Array(codeCount);
    this.levels = [{ codes, weights }];
    for (let level = this.levels[0]; level.codes.length > MOST_LOOKED_AT;) {
      level = this.coarser(level);
      this.levels.push(level);
    }
  }

  /** The code with the most weight from one place up to another; roughly so for long stretches. */
  of(first: number, end: number): number {
    if (end - first === 1) return this.levels[0].codes[first];
    let level = 0;
    while (end - first > MOST_LOOKED_AT && level < this.levels.length - 1) {
      first = Math.ceil(first / BRANCH);
      end = Math.floor(end / BRANCH);
      level++;
    }
    return this.heaviest(this.levels[level], first, end);
  }

  private heaviest({ codes, weights }: Level, first: number, end: number): number {
    const { sums } = this;
    let best = codes[first];
    for (let i = first; i < end; i++) {
      const code = codes[i];
      sums[code] += weights[i];
      if (sums[code] > sums[best]) best = code;
    }
    for (let i = first; i < end; i++) sums[codes[i]] = 0;
    return best;
  }

  private coarser(level: Level): Level {
    const count = Math.ceil(level.codes.length / BRANCH);
    const codes = new Uint16Array(count);
    const weights = new Float64Array(count);
    for (let block = 0; block < count; block++) {
      const first = block * BRANCH;
      const end = Math.min(first + BRANCH, level.codes.length);
      const best = this.heaviest(level, first, end);
      codes[block] = best;
      for (let i = first; i < end; i++) if (level.codes[i] === best) weights[block] += level.weights[i];
    }
    return { codes, weights };
  }
}
