// A logic automaton's steps on typed arrays, for pages without a GPU: all gates of a cell as one list, each after those that it reads.
function gatesOf({ channels: C, kernels: K, perception, widths }, wires) {
  const [A, B, R] = [[], [], []];
  let row = 0, end = 9 * C, at = 0, wire = (n, k, c) => n * C + c;
  for (const [a, b] of perception) {
    const [n, start, before] = [a.length, end, wire];
    for (let g = 0; g < n; g++) for (let k = 0; k < K; k++) for (let c = 0; c < C; c++) {
      A.push(before(a[g], k, c)); B.push(before(b[g], k, c)); R.push(4 * (row + k * n + g));
    }
    wire = (g, k, c) => start + (g * K + k) * C + c;
    end += n * K * C; row += K * n;
  }
  const seen = perception.length ? perception[perception.length - 1][0].length : 9;
  let layer = Array.from({ length: C }, (_, c) => 4 * C + c);
  for (let c = 0; c < C; c++) for (let s = 0; s < seen; s++) for (let k = 0; k < K; k++) layer.push(wire(s, k, c));
  for (const n of widths.slice(1)) {
    const next = [];
    for (let g = 0; g < n; g++) {
      const w = wires[at++];
      A.push(layer[w & 0xffff]); B.push(layer[w >>> 16]); R.push(4 * (row + g)); next.push(end + g);
    }
    end += n; row += n; layer = next;
  }
  return { A: Int32Array.from(A), B: Int32Array.from(B), R: Int32Array.from(R), V: new Float32Array(end), G: new Float32Array(end), layer };
}
function eachNeighbour({ height: H, width: W, periodic }, cell, visit) {
  const x = cell % W, y = Math.floor(cell / W) % H, first = cell - y * W - x;
  for (let n = 0; n < 9; n++) {
    let v = y + Math.floor(n / 3) - 1, u = x + (n % 3) - 1;
    if (periodic) [v, u] = [(v + H) % H, (u + W) % W];
    visit(n, v < 0 || u < 0 || v >= H || u >= W ? -1 : first + v * W + u);
  }
}
function cellValues(of, { A, B, R, V }, S, D, cell) {
  const C = of.channels;
  eachNeighbour(of, cell, (n, from) => { for (let c = 0; c < C; c++) V[n * C + c] = from < 0 ? 0 : S[from * C + c]; });
  for (let k = 0, w = 9 * C; k < A.length; k++, w++) {
    const a = V[A[k]], b = V[B[k]], r = R[k];
    V[w] = D[r] + D[r + 1] * a + (D[r + 2] + D[r + 3] * a) * b;
  }
}
function rolloutStates(of, made, S, D, M) {
  const { channels: C, height, width } = of, cells = S.length / C, states = [S];
  for (let step = 0; step < of.steps; step++) {
    const before = states[step], after = before.slice();
    for (let cell = 0; cell < cells; cell++) {
      if (M && !M[step * height * width + (cell % (height * width))]) continue;
      cellValues(of, made, before, D, cell);
      for (let c = 0; c < C; c++) after[cell * C + c] = made.V[made.layer[c]];
    }
    states.push(after);
  }
  return states;
}
function rollout(of, o, S, D, wires, M) {
  o.set(rolloutStates(of, (of.made ??= gatesOf(of, wires)), S, D, M)[of.steps]);
}
function rolloutGradient(of, o, S, D, wires, M, last) {
  const made = (of.made ??= gatesOf(of, wires)), { A, B, R, V, G, layer } = made, C = of.channels, area = of.height * of.width;
  const states = rolloutStates(of, made, S, D, M), sums = new Float64Array(D.length);
  let g = Float32Array.from(last);
  for (let step = of.steps - 1; step >= 0; step--) {
    const to = new Float32Array(g.length);
    for (let cell = 0; cell < g.length / C; cell++) {
      if (M && !M[step * area + (cell % area)]) {
        for (let c = 0; c < C; c++) to[cell * C + c] += g[cell * C + c];
        continue;
      }
      cellValues(of, made, states[step], D, cell);
      G.fill(0);
      for (let c = 0; c < C; c++) G[layer[c]] += g[cell * C + c];
      for (let k = A.length - 1, w = 9 * C + k; k >= 0; k--, w--) {
        const d = G[w], a = V[A[k]], b = V[B[k]], r = R[k];
        if (d === 0) continue;
        sums[r] += d; sums[r + 1] += d * a; sums[r + 2] += d * b; sums[r + 3] += d * a * b;
        G[A[k]] += d * (D[r + 1] + D[r + 3] * b);
        G[B[k]] += d * (D[r + 2] + D[r + 3] * a);
      }
      eachNeighbour(of, cell, (n, from) => { if (from >= 0) for (let c = 0; c < C; c++) to[from * C + c] += G[n * C + c]; });
    }
    g = to;
  }
  o.set(of.of_state ? g : sums);
}
