import { mount } from 'svelte';
import App from './app.svelte';
import { createApp, registerWorker } from './env';
import { loginSecret } from './model/session.svelte';
import { parseHash } from './route';
import './style/tokens.css';
import './style/base.css';

const target = document.getElementById('app');
if (!target) throw new Error('index.html has no #app');

const app = createApp();
const secret = loginSecret(location.hash);
// A secret does not stay in the address, and so not in the history.
if (secret !== undefined) history.replaceState(null, '', location.pathname + location.search);
const view = parseHash(location.hash);
if (view) app.open(view, { passing: true });

mount(App, { target, props: { app } });
void app.begin(secret);
void registerWorker();
