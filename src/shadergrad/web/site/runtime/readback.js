// -- results: buffers into which runs copy them, one behind the other, and which the host reads at once

import { MAP_READ_MODE, USE } from "./session.js";

/** Results of some steps, one behind the other, that the host reads at once. @typedef {{device: GPUDevice, buffer: GPUBuffer, used: number, bytes: Promise<ArrayBuffer> | null}} Staging */

const MOST_STAGING = 1 << 20; // bytes of results that are read at once, if one step has no more

export class Readback {
  /** @type {Staging | null} */ #filling = null;
  /** @type {Staging[]} */ #free = [];
  /** @type {Promise<any>} */ #reading = Promise.resolve();

  /** Where the results of the next step have room. @param {import("./session.js").Session} session @param {number} bytes @returns {Staging} */
  room(session, bytes) {
    const { device } = session;
    const all = Math.max(bytes, MOST_STAGING);
    /** @param {Staging | null | undefined} staging */
    const serves = (staging) => staging?.device === device && staging.used + bytes <= staging.buffer.size;
    if (!serves(this.#filling)) {
      this.#free = this.#free.filter(serves);
      const buffer = () => session.buffer(all, USE.MAP_READ | USE.COPY_DST);
      this.#filling = this.#free.pop() ?? { device, buffer: buffer(), used: 0, bytes: null };
    }
    return /** @type {Staging} */ (this.#filling);
  }

  /** Reads what steps left, as soon as those before are read: what is submitted meanwhile comes along. @param {Staging} staging */
  read(staging) {
    return (staging.bytes ??= this.#reading = this.#reading
      .catch(() => {})
      .then(async () => {
        if (this.#filling === staging) this.#filling = null;
        await staging.buffer.mapAsync(MAP_READ_MODE, 0, staging.used);
        const bytes = staging.buffer.getMappedRange(0, staging.used).slice(0);
        staging.buffer.unmap();
        this.#free.push(Object.assign(staging, { used: 0, bytes: null }));
        return bytes;
      }));
  }
}
