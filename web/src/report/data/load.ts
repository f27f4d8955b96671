// Reads the data that stands in the page.
import { decode, type Decoded } from "./decode";

const CORRECTED = /[#&]times=corrected(&|$)/;

/** Which times are shown is decided before anything is decoded: to change it the page is loaded again. */
export function load(base64: string): Promise<Decoded> {
  return decode(base64, CORRECTED.test(location.hash));
}
