<<<<<<<< HEAD:web_dashboard/built/assets/live-Dck6ol31.js
import{Ir as e}from"./sdk.gen-4K72XfVD.js";function t(t,n,r){let i=Date.now(),a,o=e(t,()=>{a===void 0&&(a=setTimeout(()=>{a=void 0,i=Date.now(),document.hidden||r()},Math.max(0,i+n-Date.now())))});return()=>{clearTimeout(a),o()}}export{t};
========
import{Nr as e}from"./sdk.gen-ByJjmyj6.js";function t(t,n,r){let i=Date.now(),a,o=e(t,()=>{a===void 0&&(a=setTimeout(()=>{a=void 0,i=Date.now(),document.hidden||r()},Math.max(0,i+n-Date.now())))});return()=>{clearTimeout(a),o()}}export{t};
>>>>>>>> b6479481 (dashboard: keep live pages whole: no approval of the unseen, no form of another object, no silent stream):web_dashboard/built/assets/live-CGEt2Rxw.js
