// Put before the page's own script: knows which timers and frames the page still waits for.
(() => {
  const LONG_MS = 1000; // longer timers only tidy up: a word that fades, a file's address that is given back
  const { SLOW_MS = 0 } = window;
  const { setTimeout, clearTimeout, requestAnimationFrame, cancelAnimationFrame, requestIdleCallback } = window;
  const pending = new Map();
  let last = 0;
  const begin = (isShort, run, start) => {
    const handle = ++last;
    const cancel = start((...values) => {
      pending.delete(handle);
      run(...values);
    });
    pending.set(handle, { cancel, isShort });
    return handle;
  };
  const end = handle => {
    pending.get(handle)?.cancel();
    pending.delete(handle);
  };
  const afterFrame = done => {
    let cancel = () => undefined;
    const frame = () => {
      const id = requestAnimationFrame(done);
      cancel = () => cancelAnimationFrame(id);
    };
    if (!SLOW_MS) frame();
    else {
      const id = setTimeout(frame, SLOW_MS);
      cancel = () => clearTimeout(id);
    }
    return () => cancel();
  };
  window.setTimeout = (run, ms = 0, ...values) => begin(ms < LONG_MS, () => run(...values), done => {
    const id = setTimeout(done, ms + SLOW_MS);
    return () => clearTimeout(id);
  });
  window.clearTimeout = end;
  window.requestAnimationFrame = run => begin(true, run, afterFrame);
  window.cancelAnimationFrame = end;
  window.requestIdleCallback = (run, options) => begin(true, run, done => {
    requestIdleCallback(done, options);
    return () => undefined;
  });
  // What changes sizes and places is noticed in the next frame, and answered in the one after it.
  window.settled = async () => {
    for (let quiet = 0; quiet < 3; ) {
      await new Promise(requestAnimationFrame);
      quiet = [...pending.values()].some(({ isShort }) => isShort) ? 0 : quiet + 1;
    }
  };
})();
