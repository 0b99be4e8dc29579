import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync, readdirSync, rmSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';
import { themeCss } from './src/shared/chart/colours';

// The API a development page talks to: a running `tailscope serve` or
// `tailscope demo`, or `npm run mock`, which listens on 7098.
const server = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';

/** The colours of the page into its style sheet. */
function theme(): Plugin {
  return {
    name: 'theme',
    enforce: 'pre',
    transform(code, id) {
      if (!id.endsWith('/src/app.css')) return;
      if (!code.includes('@theme;')) this.error('app.css has no @theme; for the colours');
      return { code: code.replace('@theme;', () => themeCss()), map: null };
    },
  };
}

/** The licence of the typeface travels with it. */
function fontLicence(): Plugin {
  return {
    name: 'font-licence',
    apply: 'build',
    generateBundle() {
      this.emitFile({
        type: 'asset',
        fileName: 'assets/inter-licence.txt',
        source: readFileSync('node_modules/@fontsource-variable/inter/LICENSE', 'utf8'),
      });
    },
  };
}

/**
 * removeOldAssets removes the scripts and styles of earlier builds, and nothing
 * else. Vite's emptyOutDir removes .gitkeep for as long as a build takes, and the
 * Go package that embeds dist does not compile without it.
 */
function removeOldAssets(): Plugin {
  return {
    name: 'remove-old-assets',
    apply: 'build',
    writeBundle({ dir }, bundle) {
      for (const name of readdirSync(`${dir}/assets`)) {
        if (!bundle[`assets/${name}`]) rmSync(`${dir}/assets/${name}`);
      }
    },
  };
}

const mostScript = 180_000;

/**
 * What any view loads stays within 180 kB, compressed: the entry, the view's own
 * script, and all that this may load besides.
 */
function budget(): Plugin {
  return {
    name: 'budget',
    apply: 'build',
    writeBundle(_, bundle) {
      const chunks = new Map(Object.values(bundle).flatMap((f) => (f.type === 'chunk' ? [[f.fileName, f] as const] : [])));
      const sizes = new Map([...chunks].map(([name, f]) => [name, gzipSync(f.code, { level: 9 }).length]));
      const reach = (from: string[], known: Set<string>, lazy: boolean): Set<string> => {
        const out = new Set<string>();
        for (const todo = [...from]; todo.length; ) {
          const name = todo.pop()!;
          const f = chunks.get(name);
          if (!f || known.has(name) || out.has(name)) continue;
          out.add(name);
          todo.push(...f.imports, ...(lazy ? f.dynamicImports : []));
        }
        return out;
      };
      const sum = (names: Set<string>) => [...names].reduce((n, name) => n + sizes.get(name)!, 0);
      const entry = reach([...chunks.values()].filter((f) => f.isEntry).map((f) => f.fileName), new Set(), false);
      const base = sum(entry);
      const views = [...new Set([...entry].flatMap((name) => chunks.get(name)!.dynamicImports))]
        .map((name) => ({ name: chunks.get(name)?.name ?? name, size: base + sum(reach([name], entry, true)) }))
        .sort((a, b) => b.size - a.size);
      const said = views.map((v) => `${v.name} ${(v.size / 1000).toFixed(1)}`).join(', ');
      this.info(`script of each view, kB compressed, of which ${(base / 1000).toFixed(1)} of every one: ${said}`);
      const most = views[0];
      if (!most || most.size > mostScript) this.error(`the script of ${most?.name ?? 'the page'} is ${most?.size ?? 0} bytes compressed, more than ${mostScript}`);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), theme(), fontLicence(), removeOldAssets(), budget()],
  // Compiled components are a tenth smaller by terser than by esbuild; nothing
  // here looks at the prototype of a function, so that arrows may stand for them.
  build: { target: 'es2022', minify: 'terser', terserOptions: { module: true, ecma: 2020, compress: { passes: 3, unsafe_arrows: true, inline: 1 } }, outDir: 'dist', emptyOutDir: false, assetsInlineLimit: 0, reportCompressedSize: true, cssCodeSplit: false,
    // One style for all, so that a page is never drawn without; few scripts, each worth a request.
    rollupOptions: { output: { experimentalMinChunkSize: 12_000 } } },
  server: { proxy: { '/api': server, '/prometheus': server } },
  preview: { proxy: { '/api': server, '/prometheus': server } },
});
