import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync } from 'node:fs';
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

export default defineConfig({
  plugins: [svelte(), fontLicence(), keepDist()],
  build: { target: 'es2022', outDir: 'dist', emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: true },
  server: { proxy: { '/api': server, '/prometheus': server } },
  preview: { proxy: { '/api': server, '/prometheus': server } },
});
