// Starts the worker and waits for the decoded data. The worker runs the page's own script, which knows where it is.
import { decode, type Decoded } from "./decode";
import type { Request } from "./worker";

// Only while it runs for the first time does a script know its element.
const SOURCE = typeof document === "undefined" ? "" : (document.currentScript?.textContent ?? "");

const CORRECTED = /[#&]times=corrected(&|$)/;

export async function load(base64: string): Promise<Decoded> {
  // Which times are shown is decided before anything is decoded: to change it the page is loaded again.
  const request = { base64, corrected: CORRECTED.test(location.hash) };
  let worker: Worker;
  try {
    worker = new Worker(URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" })));
  } catch {
    return decode(base64, request.corrected);
  }
  try {
    return await answerOf(worker, request);
  } finally {
    worker.terminate();
  }
}

function answerOf(worker: Worker, request: Request): Promise<Decoded> {
  return new Promise((resolve, reject) => {
    worker.onmessage = (event: MessageEvent<{ decoded?: Decoded; error?: string }>) => {
      if (event.data.decoded) resolve(event.data.decoded);
      else reject(new Error(event.data.error ?? "the data could not be read"));
    };
    // Some browsers accept the worker and then refuse to run it from a file.
    worker.onerror = () => decode(request.base64, request.corrected).then(resolve, reject);
    worker.postMessage(request);
  });
}
