import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

// The API a development page talks to: a running `tailscope serve` or
// `tailscope demo`, or `npm run mock`, which listens on 7098.
const server = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';

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

/** emptyOutDir removes the file that lets `go build` embed an unbuilt dist. */
function keepDist(): Plugin {
  return {
    name: 'keep-dist',
    apply: 'build',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: '.gitkeep', source: '' });
    },
  };
}

const mostScript = 250_000;

/** The page's script stays within 250 kB, compressed. */
function budget(): Plugin {
  return {
    name: 'budget',
    apply: 'build',
    writeBundle(_, bundle) {
      const size = Object.values(bundle).reduce((n, f) => n + (f.type === 'chunk' ? gzipSync(f.code, { level: 9 }).length : 0), 0);
      if (size > mostScript) this.error(`the page's script is ${size} bytes compressed, more than ${mostScript}`);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), fontLicence(), keepDist(), budget()],
  // Compiled components are a tenth smaller by terser than by esbuild; nothing
  // here looks at the prototype of a function, so that arrows may stand for them.
  build: { target: 'es2022', minify: 'terser', terserOptions: { module: true, ecma: 2020, compress: { passes: 3, unsafe_arrows: true, inline: 1 } }, outDir: 'dist', emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: true },
  server: { proxy: { '/api': server, '/prometheus': server } },
  preview: { proxy: { '/api': server, '/prometheus': server } },
});
