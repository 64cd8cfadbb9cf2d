// Mirrors the newest files into the folder that its argument names.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Client } from "@marketdata/client";

const folder = process.argv[2] ?? "files";
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
for (const file of (await client.files()).result.items) {
  const path = join(folder, file.name);
  await mkdir(dirname(path), { recursive: true });
  const part = await open(`${path}.part`, "a+"); // what an earlier run has left
  const hash = createHash("sha256");
  const { size } = await part.stat();
  for await (const bytes of createReadStream(`${path}.part`)) hash.update(bytes);
  try {
    for await (const bytes of client.download(file, hash, size)) await part.write(bytes);
  } catch (error) {
    if (error instanceof Error && error.message.includes("digest")) await rm(`${path}.part`);
    throw error;
  } finally {
    await part.close();
  }
  await rename(`${path}.part`, path);
  console.log(file.name, file.rows);
}
