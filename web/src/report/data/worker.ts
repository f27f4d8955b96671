// The page's worker: decodes the data so that the page stays responsive meanwhile.
import { buffersOf, decode } from "./decode";

/** What the worker is asked to decode. */
export interface Request {
  base64: string;
  corrected: boolean;
}
interface WorkerScope {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void;
}

export function serve(): void {
  const scope = self as unknown as WorkerScope;
  scope.onmessage = (event) => {
    decode(event.data.base64, event.data.corrected).then(
      (decoded) => scope.postMessage({ decoded }, buffersOf(decoded)),
      (error: unknown) => scope.postMessage({ error: String(error) }),
    );
  };
}
