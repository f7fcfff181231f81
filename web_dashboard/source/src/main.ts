import './frame/app.css';
import { mount } from 'svelte';
import App from './frame/App.svelte';
import { applyTheme } from './state/theme.svelte';

applyTheme();
const target = document.getElementById('app');
if (target) mount(App, { target });
