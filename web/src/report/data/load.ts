// Starts the worker and waits for the decoded data. The worker runs the page's own script, which knows where it is.
import { decode, type Decoded } from "./decode";

// Only while it runs for the first time does a script know its element.
const SOURCE = typeof document === "undefined" ? "" : (document.currentScript?.textContent ?? "");

export async function load(base64: string): Promise<Decoded> {
  let worker: Worker;
  try {
    worker = new Worker(URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" })));
  } catch {
    return decode(base64);
  }
  try {
    return await answerOf(worker, base64);
  } finally {
    worker.terminate();
  }
}

function answerOf(worker: Worker, base64: string): Promise<Decoded> {
  return new Promise((resolve, reject) => {
    worker.onmessage = (event: MessageEvent<{ decoded?: Decoded; error?: string }>) => {
      if (event.data.decoded) resolve(event.data.decoded);
      else reject(new Error(event.data.error ?? "the data could not be read"));
    };
    // Some browsers accept the worker and then refuse to run it from a file.
    worker.onerror = () => decode(base64).then(resolve, reject);
    worker.postMessage(base64);
  });
}
