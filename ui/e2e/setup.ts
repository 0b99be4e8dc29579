import { seed } from './seed';
import { seedCompare } from './seed-compare';
import { seedMirror } from './seed-mirror';
import { seedScaling } from './seed-scaling';
import { seedEnvironments } from './seed-environments';
import { seedExperiments } from './seed-experiments';
import { seedParts } from './seed-parts';

export default async function setup(): Promise<void> {
  const base = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';
  const s = await seed(base);
  process.env.TAILSCOPE_SEED = JSON.stringify(s);
  process.env.TAILSCOPE_SEED_COMPARE = JSON.stringify(await seedCompare(base, s));
  process.env.TAILSCOPE_SEED_MIRROR = JSON.stringify(await seedMirror(base, s));
  process.env.TAILSCOPE_SEED_EXPERIMENTS = JSON.stringify(await seedExperiments(base, s));
  process.env.TAILSCOPE_SEED_SCALING = JSON.stringify(await seedScaling(base, s));
  process.env.TAILSCOPE_SEED_ENVIRONMENTS = JSON.stringify(await seedEnvironments(base, s));
  process.env.TAILSCOPE_SEED_PARTS = JSON.stringify(await seedParts(base, s));
}
