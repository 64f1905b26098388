import { FrameCarrier, type Carrier } from './carrier';
import { CarrierError } from './errors';
import { MUX_PROTOCOL } from './types';

/** How long a socket may take to open: a slow mobile link with TLS. */
const OPEN_TIMEOUT = 15_000;

/** Opens a carrier over a WebSocket. It rejects with a CarrierError. */
export function dialWebSocket(url: string, signal: AbortSignal): Promise<Carrier> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, MUX_PROTOCOL);
    const carrier = new FrameCarrier({
      send: (text) => socket.send(text),
      close: (code, reason) => {
        try {
          // 1000 and 3000 to 4999 are the codes a page may send.
          socket.close(code, reason);
        } catch {
          socket.close();
        }
      },
    });
    const fail = (error: CarrierError): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      carrier.broken(error);
      reject(error);
    };
    const abort = (): void => {
      fail(new CarrierError('The attempt was given up.'));
      socket.close();
    };
    const timer = setTimeout(() => {
      fail(new CarrierError('The server did not answer in time.'));
      socket.close();
    }, OPEN_TIMEOUT);
    signal.addEventListener('abort', abort);

    socket.onopen = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(carrier);
    };
    socket.onmessage = (event) => carrier.receive(event.data);
    socket.onclose = (event) => fail(new CarrierError(event.reason || 'The connection was lost.', event.code));
  });
}
