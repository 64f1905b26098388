import type { Carrier } from './carrier';

/** One connection generation: from one ready item to the loss of its carrier. */
export interface Generation {
  /** Grows with every generation of this page. */
  readonly number: number;
  readonly carrier: Carrier;
  readonly clientId: string;
  readonly serverInstanceId: string;
}

/** Where streams find the carrier they are opened on. */
export interface Link {
  /** The current generation, undefined while there is none. */
  readonly generation: Generation | undefined;
  /** Calls f after every change of the generation until the result is called. */
  subscribe(f: () => void): () => void;
}
