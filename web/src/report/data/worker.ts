// The page's worker: decodes the data so that the page stays responsive meanwhile.
import { buffersOf, decode } from "./decode";

interface WorkerScope {
  onmessage: ((event: MessageEvent<string>) => void) | null;
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void;
}

export function serve(): void {
  const scope = self as unknown as WorkerScope;
  scope.onmessage = (event) => {
    decode(event.data).then(
      (decoded) => scope.postMessage({ decoded }, buffersOf(decoded)),
      (error: unknown) => scope.postMessage({ error: String(error) }),
    );
  };
}
