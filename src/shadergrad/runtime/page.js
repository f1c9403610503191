// What page.py asks of the browser's WebGPU. Each of these functions is one call from Python, which costs microseconds of its own; so a
// run of a plan, whose commands were prepared once, is one call. A page whose policy forbids to evaluate texts loads this file before Python.
globalThis.shadergradPage ??= {
  /** The adapter, as plain data; null where there is none. */
  async adapter() {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) return null;
    const limits = {};
    for (const name in adapter.limits) limits[name] = adapter.limits[name];
    const { vendor, architecture, device, description, isFallbackAdapter, subgroupMinSize, subgroupMaxSize, subgroupMatrixConfigs } = adapter.info ?? {};
    const matrices = [...(subgroupMatrixConfigs ?? [])].map(({ M, N, K, componentType, resultComponentType }) => [M, N, K, componentType, resultComponentType]);
    return { limits, features: [...adapter.features], vendor, architecture, device, description, subgroupMinSize, subgroupMaxSize, matrices,
      fallback: !!(isFallbackAdapter ?? adapter.isFallbackAdapter) };
  },

  /** A device with these limits and features. An adapter gives one device, so this asks for it anew. */
  async open(requiredLimits, requiredFeatures) {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Error("the browser shows no adapter any more");
    return adapter.requestDevice({ requiredLimits, requiredFeatures });
  },

  /** The calls of one device. onerror(message, is out of memory), onlost(message): what is heard between them. */
  driver(device, onerror, onlost) {
    const { queue } = device;
    const pending = new Map(); // pipelines under way, by layout and text
    const layouts = new Map(); // numbers of layouts, for that
    const mappings = new Map(); // promises, by buffer
    let held = []; // prepared runs that wait for the next submission
    let submitted = 0, finished = 0;

    device.addEventListener("uncapturederror", ({ error }) => onerror(error.message, error instanceof GPUOutOfMemoryError));
    device.lost.then(({ message, reason }) => onlost(message || reason || "no reason was given"));

    function submit(encoder) {
      queue.submit([encoder.finish()]);
      const index = ++submitted;
      queue.onSubmittedWorkDone().then(() => (finished = Math.max(finished, index)), () => {});
      return submitted - finished;
    }
    function encoderOf(copies) {
      const encoder = device.createCommandEncoder();
      for (const [from, offset, to, at, bytes] of copies) encoder.copyBufferToBuffer(from, offset, to, at, bytes);
      if (held.length) {
        const pass = encoder.beginComputePass();
        let lastPipeline, lastGroup;
        for (const commands of held) for (const [pipeline, group, x, y, z] of commands) {
          if (pipeline !== lastPipeline) pass.setPipeline(lastPipeline = pipeline);
          if (group !== lastGroup) pass.setBindGroup(0, lastGroup = group);
          pass.dispatchWorkgroups(x, y, z);
        }
        pass.end();
        held = [];
      }
      return encoder;
    }
    async function made(layout, code) {
      device.pushErrorScope("validation"); // or the module's error would be reported again, in some later call
      const module = device.createShaderModule({ code });
      device.popErrorScope().catch(() => {}); // of a lost device
      try {
        const pipeline = await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main" } });
        return [pipeline, null];
      } catch (error) {
        const first = (await module.getCompilationInfo()).messages.find(({ type }) => type === "error");
        return [null, first ? `:${first.lineNum}:${first.linePos} error: ${first.message}` : error.message];
      }
    }
    function keyOf(layout, code) {
      if (!layouts.has(layout)) layouts.set(layout, layouts.size);
      return `${layouts.get(layout)} ${code}`;
    }

    return {
      prepare: (commands) => commands,
      hold(commands) { held.push(commands); },
      /** Submits a run, with those that wait; how many submissions are under way. */
      run(commands) { held.push(commands); return submit(encoderOf([])); },
      submit: () => submit(encoderOf([])),
      forget() { held = []; },
      /** Copies, then the runs that wait. */
      copiesThenRuns: (copies) => submit(encoderOf(copies)),
      /** The runs that wait, then a copy. */
      copy(from, offset, to, at, bytes) {
        const encoder = encoderOf([]);
        encoder.copyBufferToBuffer(from, offset, to, at, bytes);
        return submit(encoder);
      },
      clear(buffers) {
        const encoder = encoderOf([]);
        for (const [buffer, bytes] of buffers) encoder.clearBuffer(buffer, 0, bytes);
        return submit(encoder);
      },
      inFlight: () => submitted - finished,
      /** Waits until at most so many submissions are under way. */
      async ease(most) {
        while (submitted - finished > most) await queue.onSubmittedWorkDone();
        return submitted - finished;
      },
      write(buffer, start, data) {
        const view = data.getBuffer("u8");
        try { queue.writeBuffer(buffer, start, view.data); } finally { view.release(); }
      },
      buffer: (size, usage) => device.createBuffer({ size, usage }),
      /** A buffer, and what the device says of it: of memory, of anything else. */
      async checkedBuffer(size, usage) {
        device.pushErrorScope("out-of-memory");
        device.pushErrorScope("validation");
        const buffer = device.createBuffer({ size, usage });
        const [invalid, exhausted] = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
        return [buffer, exhausted?.message ?? null, invalid?.message ?? null];
      },
      layout: (types) => device.createBindGroupLayout({
        entries: types.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) }),
      pipelineLayout: (group) => device.createPipelineLayout({ bindGroupLayouts: [group] }),
      group: (layout, bound) => device.createBindGroup({ layout,
        entries: bound.map(([buffer, offset, size], binding) => ({ binding, resource: { buffer, offset, size } })) }),
      begin(layout, code) {
        const key = keyOf(layout, code);
        if (!pending.has(key)) pending.set(key, made(layout, code));
      },
      forgetBegun: () => pending.clear(),
      /** [pipeline, null], or [null, what is wrong]. */
      pipeline(layout, code) {
        const key = keyOf(layout, code), begun = pending.get(key);
        pending.delete(key);
        return begun ?? made(layout, code);
      },
      /** The same at once; what is wrong comes as an uncaptured error. */
      pipelineNow: (layout, code) => device.createComputePipeline({ layout,
        compute: { module: device.createShaderModule({ code }), entryPoint: "main" } }),
      map(buffer, mode, bytes) {
        const mapping = buffer.mapAsync(mode, 0, bytes);
        mapping.catch(() => {});
        mappings.set(buffer, mapping);
      },
      /** The bytes of a buffer if it is mapped, or a promise of them. */
      mapped(buffer, bytes) {
        const range = () => { mappings.delete(buffer); return new Uint8Array(buffer.getMappedRange(0, bytes)); };
        return buffer.mapState === "mapped" ? range() : (mappings.get(buffer) ?? Promise.reject(new Error("not mapped"))).then(range);
      },
      settled: () => Promise.allSettled([queue.onSubmittedWorkDone(), ...mappings.values()]),
      done: () => queue.onSubmittedWorkDone(),
      destroy: () => device.destroy(),
    };
  },
};
