// Mirrors the newest files into the folder given as its argument.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Client } from "@marketdata/client";

async function hashFile(path, hash) {
  for await (const bytes of createReadStream(path)) hash.update(bytes);
  return hash;
}

const folder = process.argv[2] ?? "files";
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
for (const file of (await client.files()).result.items) {
  const path = join(folder, file.name);
  const there = await hashFile(path, createHash("sha256")).catch(() => undefined);
  if (there?.digest("hex") === file.sha256) continue;
  await mkdir(dirname(path), { recursive: true });
  const part = await open(`${path}.part`, "a+"); // an earlier run may have left a part of the file
  const hash = createHash("sha256");
  const { size } = await part.stat();
  await hashFile(`${path}.part`, hash);
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
