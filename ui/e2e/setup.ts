import { seed } from './seed';

export default async function setup(): Promise<void> {
  const base = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';
  process.env.TAILSCOPE_SEED = JSON.stringify(await seed(base));
}
