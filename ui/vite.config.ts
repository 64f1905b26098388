import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// The newest features in use are popover, light-dark() and container queries;
// older browsers get no build of their own.
const browsers = ['chrome123', 'safari17.5', 'firefox125'];

/**
 * Writes the list of the shell's files into the service worker, so that it
 * caches exactly the files of its own build and is itself new with each build.
 */
function shellList(): Plugin {
  return {
    name: 'garcon-shell-list',
    generateBundle(_, bundle) {
      const worker = bundle['sw.js'];
      if (worker?.type !== 'chunk') this.error('the build has no sw.js');
      const shell = new Set<string>();
      const add = (name: string): void => {
        const chunk = bundle[name];
        if (shell.has(name) || chunk?.type !== 'chunk') return;
        shell.add(name);
        for (const css of chunk.viteMetadata?.importedCss ?? []) shell.add(css);
        for (const next of [...chunk.imports, ...chunk.dynamicImports]) add(next);
      };
      for (const chunk of Object.values(bundle)) {
        if (chunk.type === 'chunk' && chunk.isEntry && chunk !== worker) add(chunk.fileName);
      }
      // Vite names the CSS files of dynamic chunks only in its metadata; every
      // style sheet belongs to some screen of the shell.
      for (const name of Object.keys(bundle)) if (name.endsWith('.css')) shell.add(name);
      const list = JSON.stringify([...shell].sort());
      const before = worker.code;
      worker.code = before.replace(/["'`]__SHELL__["'`]/, () => list);
      if (worker.code === before) this.error('sw.js has no place for the list of files');
    },
  };
}

export default defineConfig({
  // Relative, so that one build works under any --base-path.
  base: './',
  plugins: [svelte(), shellList()],
  build: {
    target: browsers,
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/sw.ts' },
      output: {
        entryFileNames: (chunk) => (chunk.name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js'),
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  server: {
    proxy: {
      '/api': { target: process.env.GARCON_URL ?? 'http://127.0.0.1:8080', ws: true },
    },
  },
  test: {
    environment: 'node',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
  },
  // Without it Svelte would be its server build in tests, where nothing reacts.
  resolve: process.env.VITEST ? { conditions: ['browser'] } : undefined,
});
