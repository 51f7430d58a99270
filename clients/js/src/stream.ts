/** Calls on a stream of libp2p: a request and a reply, each 4 bytes of length and then that many bytes. */
import type { Stream } from "@libp2p/interface";
import { byteStream, type ByteStream } from "@libp2p/utils";
import { concat, number } from "./bytes.js";
import { FRAME_HEADER_BYTES } from "./limits.js";
import { Refused } from "./refusal.js";

const CALL_MS = 20_000;
const IDLE_MS = 60_000;

async function send(bytes: ByteStream<Stream>, frame: Uint8Array): Promise<void> {
  await bytes.write(concat(number(frame.length, FRAME_HEADER_BYTES), frame), { signal: AbortSignal.timeout(CALL_MS) });
}

/** Reads a frame. Its length is compared with `most` before anything is allocated. */
async function receive(bytes: ByteStream<Stream>, most: number, ms: number): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(ms);
  const head = (await bytes.read({ bytes: FRAME_HEADER_BYTES, signal })).subarray();
  const length = Buffer.from(head).readUInt32BE(0);
  if (length > most) throw new Refused("too big");
  return length ? (await bytes.read({ bytes: length, signal })).slice() : new Uint8Array();
}

/** Makes one call, and returns the reply. An empty reply is a refusal. */
export async function call(stream: Stream, request: Uint8Array, most: number): Promise<Uint8Array> {
  const bytes = byteStream(stream);
  try {
    await send(bytes, request);
    return await receive(bytes, most, CALL_MS);
  } finally {
    stream.close().catch(() => stream.abort(new Error("not closed")));
  }
}

/** Answers calls until the peer ends the stream. Aborts it if a request is above `most` or does not come in time. */
export async function serve(stream: Stream, most: number, answer: (request: Uint8Array) => Uint8Array): Promise<void> {
  const bytes = byteStream(stream);
  try {
    for (;;) await send(bytes, answer(await receive(bytes, most, IDLE_MS)));
  } catch (error) {
    stream.abort(error instanceof Error ? error : new Error("ended"));
  }
}
