import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The dashboard of `npm run dev` talks to this installation.
const installation = process.env.PHAROS_URL ?? 'http://127.0.0.1:8000';

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: process.env.OUT_DIR ?? '../built',
    emptyOutDir: true,
    target: 'es2022',
    // The policy allows no inline script.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    sourcemap: false,
  },
  server: {
    host: '127.0.0.1',
    proxy: { '/api': installation, '/health': installation },
  },
});
